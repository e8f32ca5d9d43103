package shedlock.interop;

import com.mongodb.client.MongoClients;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.lettuce.core.ClientOptions;
import java.net.URI;
import java.time.Duration;
import java.util.TimeZone;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbc.JdbcLockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.mongo.MongoLockProvider;
import net.javacrumbs.shedlock.provider.redis.jedis4.JedisLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import net.javacrumbs.shedlock.provider.zookeeper.curator.ZookeeperCuratorLockProvider;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.jdbc.core.JdbcTemplate;
import redis.clients.jedis.JedisPool;

/** ShedLock's providers, configured as in its manual. */
final class Stores {
    private Stores() {}

    static LockProvider open(String[] args) {
        String store = args[0];
        String url = args[1];
        return switch (store) {
            case "jdbc-template" -> jdbcTemplate(url, args[2]);
            case "jdbc" -> new JdbcLockProvider(pool(url));
            case "mongo" -> new MongoLockProvider(MongoClients.create(url).getDatabase(args[2]));
            case "redis-spring" -> redis(url, args[2], false);
            case "redis-spring-safe" -> redis(url, args[2], true);
            case "redis-jedis" -> new JedisLockProvider(new JedisPool(URI.create(url)), args[2]);
            case "zookeeper" -> zookeeper(url, args[2]);
            default -> throw new IllegalArgumentException("no such store: " + store);
        };
    }

    private static LockProvider jdbcTemplate(String url, String time) {
        HikariDataSource pool = pool(url);
        JdbcTemplateLockProvider.Configuration.Builder configuration = JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(new JdbcTemplate(pool))
                .withTransactionManager(new Commits(pool));
        String host = System.getProperty("interop.host");
        if (host != null) {
            configuration.withLockedByValue(host);
        }
        switch (time) {
            case "db" -> configuration.usingDbTime();
            case "client" -> {}
            case "client-utc" -> configuration.withTimeZone(TimeZone.getTimeZone("UTC"));
            default -> throw new IllegalArgumentException("no such time mode: " + time);
        }
        return new JdbcTemplateLockProvider(configuration.build());
    }

    private static HikariDataSource pool(String url) {
        HikariConfig pool = new HikariConfig();
        pool.setJdbcUrl(url);
        pool.setMaximumPoolSize(4);
        pool.setMinimumIdle(1);
        // A slow machine may need more than one try.
        pool.setInitializationFailTimeout(60_000);
        Long patience = Long.getLong("interop.patience");
        if (patience != null) {
            pool.setConnectionTimeout(patience);
            pool.setValidationTimeout(patience / 2);
        }
        return new HikariDataSource(pool);
    }

    private static LockProvider redis(String url, String environment, boolean safe) {
        LettuceClientConfiguration.LettuceClientConfigurationBuilder client = LettuceClientConfiguration.builder();
        Long patience = Long.getLong("interop.patience");
        if (patience != null) {
            // At most once: otherwise the client repeats a command whose connection was cut, and a "no"
            // may mean that the first one was granted.
            ClientOptions once = ClientOptions.builder().autoReconnect(false).build();
            client.commandTimeout(Duration.ofMillis(patience)).clientOptions(once);
        }
        LettuceConnectionFactory connections = new LettuceConnectionFactory(
                LettuceConnectionFactory.createRedisConfiguration(url), client.build());
        // The next call replaces a connection that was cut.
        connections.setValidateConnection(patience != null);
        connections.afterPropertiesSet();
        connections.start();
        return new RedisLockProvider.Builder(connections)
                .environment(environment)
                .safeUpdate(safe)
                .build();
    }

    private static LockProvider zookeeper(String servers, String path) {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(servers, new ExponentialBackoffRetry(1_000, 3));
        client.start();
        return new ZookeeperCuratorLockProvider(client, path);
    }
}
