package shedlock.interop;

import javax.sql.DataSource;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.DefaultTransactionStatus;

/**
 * Detects what ShedLock hides: if a transaction fails and may or may not have been committed, ShedLock
 * reports a lock as held by another owner, and an unlock that failed too often as successful.
 */
final class Commits extends DataSourceTransactionManager {
    private static final ThreadLocal<Boolean> DOUBTFUL = ThreadLocal.withInitial(() -> false);

    Commits(DataSource source) {
        super(source);
    }

    /** Forgets the failed transactions of this thread. */
    static void reset() {
        DOUBTFUL.set(false);
    }

    /** Whether a transaction of this thread failed since the last reset. */
    static boolean areDoubtful() {
        return DOUBTFUL.get();
    }

    @Override
    protected void doCommit(DefaultTransactionStatus status) {
        boolean isDone = false;
        try {
            super.doCommit(status);
            isDone = true;
        } finally {
            if (!isDone) {
                DOUBTFUL.set(true);
            }
        }
    }

    @Override
    protected void doRollback(DefaultTransactionStatus status) {
        DOUBTFUL.set(true);
        super.doRollback(status);
    }
}
