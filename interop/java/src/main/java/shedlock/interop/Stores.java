package shedlock.interop;

import com.mongodb.client.MongoClients;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.util.TimeZone;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.mongo.MongoLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;

/** ShedLock's providers, as its manual sets them up. */
final class Stores {
    private Stores() {}

    static LockProvider open(String[] args) {
        String store = args[0];
        String url = args[1];
        return switch (store) {
            case "jdbc" -> jdbc(url, args[2]);
            case "mongo" -> new MongoLockProvider(MongoClients.create(url).getDatabase(args[2]));
            default -> throw new IllegalArgumentException("no such store: " + store);
        };
    }

    private static LockProvider jdbc(String url, String time) {
        HikariConfig pool = new HikariConfig();
        pool.setJdbcUrl(url);
        pool.setMaximumPoolSize(8);
        JdbcTemplate template = new JdbcTemplate(new HikariDataSource(pool));
        JdbcTemplateLockProvider.Configuration.Builder configuration =
                JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(template);
        switch (time) {
            case "db" -> configuration.usingDbTime();
            case "client" -> {}
            case "client-utc" -> configuration.withTimeZone(TimeZone.getTimeZone("UTC"));
            default -> throw new IllegalArgumentException("no such time mode: " + time);
        }
        return new JdbcTemplateLockProvider(configuration.build());
    }
}
