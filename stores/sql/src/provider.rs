//! The lock contract, handed on to the flow: alike for every dialect.

/// Implements [`LockProvider`](shedlock_core::LockProvider) for a type whose field `flow` is an
/// `Arc<Flow<…>>`.
macro_rules! provider {
    ($provider:ty, $database:ty) => {
        impl shedlock_core::LockProvider for $provider {
            fn attempt<'a>(
                &'a self,
                request: &'a shedlock_core::AttemptRequest,
            ) -> shedlock_core::BoxFuture<'a, Result<shedlock_core::Attempt, shedlock_core::Error>>
            {
                Box::pin(self.flow.attempt(request))
            }

            fn withdraw<'a>(
                &'a self,
                request: &'a shedlock_core::AttemptRequest,
            ) -> shedlock_core::BoxFuture<'a, Result<bool, shedlock_core::Error>> {
                Box::pin(self.flow.withdraw(request))
            }

            fn extend<'a>(
                &'a self,
                lease: &'a shedlock_core::Lease,
                request: &'a shedlock_core::ExtendRequest,
            ) -> shedlock_core::BoxFuture<'a, Result<shedlock_core::Extension, shedlock_core::Error>>
            {
                Box::pin(self.flow.extend(lease, request))
            }

            fn unlock<'a>(
                &'a self,
                lease: &'a shedlock_core::Lease,
                request: &'a shedlock_core::UnlockRequest,
            ) -> shedlock_core::BoxFuture<'a, Result<shedlock_core::Unlock, shedlock_core::Error>>
            {
                Box::pin(self.flow.unlock(lease, request))
            }

            fn inspect<'a>(
                &'a self,
                name: &'a shedlock_core::LockName,
            ) -> shedlock_core::BoxFuture<
                'a,
                Result<Option<shedlock_core::LockRecord>, shedlock_core::Error>,
            > {
                Box::pin(self.flow.inspect(name))
            }

            fn list<'a>(
                &'a self,
                request: &'a shedlock_core::ListRequest,
            ) -> shedlock_core::BoxFuture<
                'a,
                Result<Vec<shedlock_core::LockRecord>, shedlock_core::Error>,
            > {
                Box::pin(self.flow.list(request))
            }

            fn force_unlock<'a>(
                &'a self,
                request: &'a shedlock_core::ForceUnlockRequest,
            ) -> shedlock_core::BoxFuture<
                'a,
                Result<shedlock_core::ForceUnlock, shedlock_core::Error>,
            > {
                Box::pin(self.flow.force_unlock(request))
            }

            fn reset_slot<'a>(
                &'a self,
                request: &'a shedlock_core::ResetSlotRequest,
            ) -> shedlock_core::BoxFuture<
                'a,
                Result<shedlock_core::SlotReset, shedlock_core::Error>,
            > {
                Box::pin(self.flow.reset_slot(request))
            }

            fn check(
                &self,
            ) -> shedlock_core::BoxFuture<'_, Result<(), shedlock_core::Error>> {
                Box::pin(self.flow.check())
            }

            fn capabilities(&self) -> shedlock_core::Capabilities {
                self.flow.capabilities()
            }

            fn identity(&self) -> shedlock_core::ProviderIdentity {
                self.flow.identity()
            }

            fn store(&self) -> &str {
                <$database as $crate::driver::Backend>::STORE
            }

            fn defaults(&self) -> shedlock_core::LockDefaults {
                self.flow.options().defaults.clone()
            }

            fn migrate(
                &self,
            ) -> shedlock_core::BoxFuture<
                '_,
                Result<shedlock_core::Migration, shedlock_core::Error>,
            > {
                Box::pin(self.flow.migrate())
            }
        }
    };
}

pub(crate) use provider;
