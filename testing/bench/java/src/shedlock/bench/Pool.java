package shedlock.bench;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import javax.sql.DataSource;

/** HikariCP with default settings, except for the maximum number of connections. */
final class Pool {
    private Pool() {}

    static DataSource of(String url, int connections) {
        HikariConfig pool = new HikariConfig();
        pool.setJdbcUrl(url);
        pool.setMaximumPoolSize(connections);
        return new HikariDataSource(pool);
    }

    /** The versions of the pool, the driver for the URL, and Java. */
    static String versions(String url) {
        Class<?> driver = url.startsWith("jdbc:postgresql:")
                ? org.postgresql.Driver.class
                : org.mariadb.jdbc.Driver.class;
        return version(HikariDataSource.class) + ", " + version(driver) + ", " + java();
    }

    static String java() {
        return "Java " + Runtime.version();
    }

    /** The name of the class's jar, which contains its version. */
    static String version(Class<?> of) {
        String jar = of.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*/", "").replaceAll("\\.jar$", "");
    }
}
