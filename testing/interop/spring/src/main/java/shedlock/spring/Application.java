package shedlock.spring;

import java.util.concurrent.Executors;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import net.javacrumbs.shedlock.spring.annotation.EnableSchedulerLock;
import net.javacrumbs.shedlock.support.KeepAliveLockProvider;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Primary;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.scheduling.annotation.EnableScheduling;

/**
 * A service as Spring Boot and ShedLock's manual have it. It ends when its standard input closes.
 *
 * <p>Properties: {@code interop.store} is {@code postgres} or {@code redis}; Spring's own name the server. With Redis,
 * {@code interop.environment} is the environment.
 */
@SpringBootApplication
@EnableScheduling
@EnableSchedulerLock(defaultLockAtMostFor = "PT1M")
public class Application {
    public static void main(String[] args) throws Exception {
        ConfigurableApplicationContext context = SpringApplication.run(Application.class, args);
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        context.close();
    }

    @Bean
    @Primary
    @ConditionalOnProperty(name = "interop.store", havingValue = "postgres")
    ExtensibleLockProvider table(JdbcTemplate jdbcTemplate) {
        return new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(jdbcTemplate)
                .usingDbTime()
                .build());
    }

    @Bean
    @Primary
    @ConditionalOnProperty(name = "interop.store", havingValue = "redis")
    ExtensibleLockProvider keys(
            RedisConnectionFactory connections, @Value("${interop.environment}") String environment) {
        return new RedisLockProvider.Builder(connections)
                .environment(environment)
                .safeUpdate(true)
                .build();
    }

    @Bean
    LockProvider keepAlive(ExtensibleLockProvider provider) {
        return new KeepAliveLockProvider(provider, Executors.newSingleThreadScheduledExecutor(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        }));
    }
}
