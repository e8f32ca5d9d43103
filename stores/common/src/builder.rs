//! What the builders of all stores are made of.

/// The builder with this setting, where there is one.
pub fn maybe<B, T>(builder: B, value: Option<T>, set: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// Setters of a builder, each named like the field that it sets: in the builder itself (`[]`), or in a field of it
/// (`[settings]`).
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

/// The setters that every builder has, for one that keeps `defaults` and `clock` in this field.
#[doc(hidden)]
#[macro_export]
macro_rules! common_setters {
    ($($at:ident).*) => {
        $crate::setters! { [$($at).*]
            /// Durations for locks that set none, and what owners start with.
            defaults(defaults: ::shedlock_core::LockDefaults) = defaults;

            /// The client's clock, for tests.
            clock(clock: ::std::sync::Arc<dyn ::shedlock_core::Clock>) = clock;
        }
    };
}
