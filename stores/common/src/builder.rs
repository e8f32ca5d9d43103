//! Building blocks for the builders of all stores.

/// Returns the builder with this setting applied, if there is a value.
pub fn maybe<B, T>(builder: B, value: Option<T>, set: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// Defines setters of a builder, each named after the field that it sets. The field belongs to the builder itself
/// (`[]`) or to one of its fields (`[settings]`).
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (@one [$($at:ident).*] $(#[$doc:meta])* $name:ident($value:ident: $type:ty) = $set:expr) => {
        $(#[$doc])*
        pub fn $name(mut self, $value: $type) -> Self {
            self.$($at.)*$name = $set;
            self
        }
    };
    ($at:tt $($(#[$doc:meta])* $name:ident($value:ident: $type:ty) = $set:expr;)+) => {
        $($crate::setters! { @one $at $(#[$doc])* $name($value: $type) = $set })+
    };
}

/// Defines the setters that every builder has. The given field of the builder holds `defaults` and `clock`.
#[doc(hidden)]
#[macro_export]
macro_rules! common_setters {
    ($($at:ident).*) => {
        $crate::setters! { [$($at).*]
            /// Sets the durations for locks that set none, and the prefix of owners.
            defaults(defaults: ::shedlock_core::LockDefaults) = defaults;

            /// Sets the client's clock, for tests.
            clock(clock: ::std::sync::Arc<dyn ::shedlock_core::Clock>) = clock;
        }
    };
}
