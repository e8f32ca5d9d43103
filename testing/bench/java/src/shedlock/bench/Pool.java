package shedlock.bench;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import javax.sql.DataSource;

/** HikariCP with its defaults, but for how many connections it may have. */
final class Pool {
    private Pool() {}

    static DataSource of(String url, int connections) {
        HikariConfig pool = new HikariConfig();
        pool.setJdbcUrl(url);
        pool.setMaximumPoolSize(connections);
        return new HikariDataSource(pool);
    }

    /** The pool, the driver for that URL, and what runs them. */
    static String versions(String url) {
        Class<?> driver = url.startsWith("jdbc:postgresql:")
                ? org.postgresql.Driver.class
                : org.mariadb.jdbc.Driver.class;
        return version(HikariDataSource.class) + ", " + version(driver) + ", " + java();
    }

    static String java() {
        return "Java " + Runtime.version();
    }

    /** The jar that it comes from, whose name has its version. */
    static String version(Class<?> of) {
        String jar = of.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*/", "").replaceAll("\\.jar$", "");
    }
}
