package shedlock.bench;

import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;

/**
 * ShedLock's provider over JdbcTemplate with the database's time, configured as in its manual.
 *
 * <p>Arguments: {@code serve} or {@code once}, {@code template}, the URL, and the number of connections.
 */
public final class Current {
    private Current() {}

    public static void main(String[] args) throws Exception {
        LockProvider provider = new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(new JdbcTemplate(Pool.of(args[2], Integer.parseInt(args[3]))))
                .usingDbTime()
                .build());
        if (args[0].equals("once")) {
            Contender.once(provider);
            System.exit(0);
        }
        Contender.serve(
                provider,
                Pool.version(JdbcTemplateLockProvider.class) + ", " + Pool.version(JdbcTemplate.class) + ", "
                        + Pool.versions(args[2]));
    }
}
