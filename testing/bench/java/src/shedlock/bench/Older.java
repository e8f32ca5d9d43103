package shedlock.bench;

import io.lettuce.core.RedisClient;
import java.net.URI;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbc.JdbcLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * ShedLock's providers from the last release that Maven Central has: over plain JDBC, which can only
 * use the client's time, and over Spring Data Redis with Lettuce.
 *
 * <p>Arguments: {@code serve} or {@code once}, {@code plain} or {@code lettuce}, the URL, and the
 * number of connections.
 */
public final class Older {
    private Older() {}

    public static void main(String[] args) throws Exception {
        LockProvider provider = args[1].equals("lettuce")
                ? redis(URI.create(args[2]))
                : new JdbcLockProvider(Pool.of(args[2], Integer.parseInt(args[3])));
        if (args[0].equals("once")) {
            Contender.once(provider);
            System.exit(0);
        }
        String versions = args[1].equals("lettuce")
                ? Pool.version(RedisLockProvider.class) + ", " + Pool.version(LettuceConnectionFactory.class) + ", "
                        + Pool.version(RedisClient.class) + ", " + Pool.java()
                : Pool.version(JdbcLockProvider.class) + ", " + Pool.versions(args[2]);
        Contender.serve(provider, versions);
    }

    private static LockProvider redis(URI url) {
        LettuceConnectionFactory connections =
                new LettuceConnectionFactory(new RedisStandaloneConfiguration(url.getHost(), url.getPort()));
        connections.afterPropertiesSet();
        connections.start();
        return new RedisLockProvider(connections, "bench");
    }
}
