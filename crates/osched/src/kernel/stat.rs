//! The line of `/proc/PID/stat` and `/proc/PID/task/TID/stat`.

/// Flag of the kernel's own threads (`PF_KTHREAD` of `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The fields of the line that are used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// At most 15 bytes.
    pub(super) name: String,
    /// Whether it is a thread of the kernel.
    pub(super) is_kernel_thread: bool,
    /// Whether it has ended and only its number is left.
    pub(super) has_ended: bool,
    /// When it started, in clock ticks after the boot (field 22).
    pub(super) start: u64,
}

impl Stat {
    /// `None` if the line is not of this form.
    pub(super) fn parse(line: &str) -> Option<Stat> {
        // The name, in parentheses, may contain spaces and parentheses. Fields are counted from 1, the third
        // follows the name.
        let (before, after) = line.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            name,
            has_ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            is_kernel_thread: number(9)? & KERNEL_THREAD != 0,
            start: number(22)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_and_spaces() {
        let line = "4242 (a) (b c) S 17 4242 4242 0 -1 4194304 900 0 0 0 150 25 0 0 20 0 3 0 98765 1000 200";
        let expected = Stat { name: "a) (b c".into(), is_kernel_thread: false, has_ended: false, start: 98765 };
        assert_eq!(Stat::parse(line), Some(expected));
    }

    #[test]
    fn kernel_threads_and_ended_ones_are_recognized() {
        let kernel = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0";
        assert!(Stat::parse(kernel).is_some_and(|stat| stat.is_kernel_thread && stat.start == 3));
        let ended = "7 (x) Z 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 44 0 0";
        assert!(Stat::parse(ended).is_some_and(|stat| stat.has_ended && stat.start == 44));
    }

    #[test]
    fn what_is_no_such_line_is_none() {
        for line in ["", "1", "1 (x", "1 (x)", "1 (x) S 1 2", "1 (x) S 1 1 1 0 -1 y 0 0 0 0 0 0 0 0 0 0 0 0 5"] {
            assert_eq!(Stat::parse(line), None, "{line:?}");
        }
    }
}
