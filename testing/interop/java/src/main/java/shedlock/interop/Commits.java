package shedlock.interop;

import javax.sql.DataSource;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.DefaultTransactionStatus;

/**
 * Sees what ShedLock hides: a transaction that failed, and of which nobody knows whether it was
 * committed, is a lock that somebody else holds to it, and an unlock that went well if it failed
 * too often.
 */
final class Commits extends DataSourceTransactionManager {
    private static final ThreadLocal<Boolean> DOUBTFUL = ThreadLocal.withInitial(() -> false);

    Commits(DataSource source) {
        super(source);
    }

    /** What this thread does from now on is looked at anew. */
    static void lookAnew() {
        DOUBTFUL.set(false);
    }

    /** Whether any transaction of this thread's failed since then. */
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
