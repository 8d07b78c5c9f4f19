//! The log off and on in simulation, and what a start may make of it. Files of a log that was off
//! are refused by name, all others are opened. A refusal is right and ends the run: the files can
//! be asked nothing more.
use super::world::{Step, World};
use crate::base::{Error, Result};
use crate::engine::Engine;
use std::sync::Arc;

/// What a start will find of the mark that says "off".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogState {
    #[default]
    On,
    Off,
    /// Turning failed, or was cut short.
    Doubt,
}

impl LogState {
    /// A shutdown turns the log on.
    pub fn closed(&mut self, done: bool) {
        match (*self, done) {
            (_, true) => *self = LogState::On,
            (LogState::Off, false) => *self = LogState::Doubt,
            _ => {}
        }
    }
}

impl World {
    pub fn switch_log(&mut self, on: bool) -> Step {
        let was_on = self.log == LogState::On;
        let done = self.engine().set_redo_log(on);
        match (&done, on) {
            // What is on already promises nothing more.
            (Ok(()), true) if was_on => {}
            (Ok(()), true) => {
                self.log = LogState::On;
                self.history.all_durable();
            }
            (Ok(()), false) => self.log = LogState::Off,
            (Err(_), _) if was_on == on => {}
            (Err(_), _) => self.log = LogState::Doubt,
        }
        self.judge_result("turning the log", done)
    }

    /// True: the files were refused, rightly.
    pub fn judge_log(&mut self, opened: &Result<Arc<Engine>>) -> std::result::Result<bool, String> {
        let text = match opened {
            Err(Error::Corrupt(text)) if text.contains("redo log was off") => text,
            Err(_) => return Ok(false),
            Ok(_) if self.log == LogState::Off && !self.lied => {
                return Err("the log was off at the crash, and the files are believed".into())
            }
            Ok(_) => {
                self.log = LogState::On;
                return Ok(false);
            }
        };
        if self.log == LogState::On && !self.lied {
            return Err(format!("the log was on, but: {text}"));
        }
        if !text.contains(".slu") || !text.contains("backup") {
            return Err(format!("refused without saying what, or what to do: {text}"));
        }
        self.over = true;
        Ok(true)
    }
}
