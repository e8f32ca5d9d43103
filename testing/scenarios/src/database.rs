//! The service's own tables.

use std::time::Duration;

use sqlx::any::{AnyPoolOptions, AnyRow};
use sqlx::{AnyPool, AssertSqlSafe};

/// A database of PostgreSQL, MySQL or MariaDB.
#[derive(Clone, Debug)]
pub struct Database {
    pool: AnyPool,
    is_postgres: bool,
}

impl Database {
    /// Connects to the database.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses the connection.
    pub async fn connect(url: &str) -> Result<Self, sqlx::Error> {
        sqlx::any::install_default_drivers();
        let options = AnyPoolOptions::new()
            .max_connections(2)
            .acquire_timeout(Duration::from_secs(30));
        Ok(Self {
            pool: options.connect(url).await?,
            is_postgres: url.starts_with("postgres"),
        })
    }

    /// Changes rows; returns how many.
    ///
    /// # Errors
    /// If the server reports one.
    pub async fn change(&self, statement: &str, values: &[i64]) -> Result<u64, sqlx::Error> {
        let mut query = sqlx::query(AssertSqlSafe(self.in_dialect(statement)));
        for value in values {
            query = query.bind(*value);
        }
        Ok(query.execute(&self.pool).await?.rows_affected())
    }

    /// Reads rows.
    ///
    /// # Errors
    /// If the server reports one.
    pub async fn read(&self, query: &str, values: &[i64]) -> Result<Vec<AnyRow>, sqlx::Error> {
        let mut query = sqlx::query(AssertSqlSafe(self.in_dialect(query)));
        for value in values {
            query = query.bind(*value);
        }
        query.fetch_all(&self.pool).await
    }

    /// PostgreSQL numbers its placeholders.
    fn in_dialect(&self, statement: &str) -> String {
        if !self.is_postgres {
            return statement.to_owned();
        }
        let mut parts = statement.split('?');
        let first = parts.next().unwrap_or_default().to_owned();
        parts
            .zip(1..)
            .fold(first, |sql, (part, number)| format!("{sql}${number}{part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn placeholders_are_numbered_for_postgres_alone() {
        sqlx::any::install_default_drivers();
        let database = |url: &str| Database {
            pool: AnyPool::connect_lazy(url).unwrap(),
            is_postgres: url.starts_with("postgres"),
        };
        let statement = "UPDATE t SET a = ? WHERE b = ?";
        assert_eq!(
            database("postgres://localhost/x").in_dialect(statement),
            "UPDATE t SET a = $1 WHERE b = $2"
        );
        assert_eq!(
            database("mysql://localhost/x").in_dialect(statement),
            statement
        );
    }
}
