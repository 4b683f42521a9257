package witness

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// command is an executed command with what the witness reads from its arguments.
type command struct {
	line
	name string // in capitals
}

func newCommand(l line) command { return command{l, strings.ToUpper(l.args[0])} }

// writers are the commands that mean to change the key that they name: if such a
// command had no effect, it was refused. All but DEL and UNLINK name one key.
var writers = map[string]bool{
	"SET": true, "SETNX": true, "SETEX": true, "PSETEX": true, "GETSET": true,
	"GETDEL": true, "DEL": true, "UNLINK": true, "DELEX": true,
	"EXPIRE": true, "PEXPIRE": true, "EXPIREAT": true, "PEXPIREAT": true, "PERSIST": true,
	"HSET": true, "HSETNX": true, "HMSET": true, "HDEL": true, "HINCRBY": true,
	"INCR": true, "INCRBY": true, "DECR": true, "DECRBY": true,
}

// keys returns the keys that the command names, of all commands that can matter to a
// lock: those that write, and those of scripts, which read before they decide.
func (c *command) keys() []string {
	switch {
	case len(c.args) < 2:
		return nil
	case c.name == "DEL" || c.name == "UNLINK" || c.name == "EXISTS":
		return c.args[1:]
	case c.script():
		if len(c.args) < 3 {
			return nil
		}
		n, err := strconv.Atoi(c.args[2])
		if err != nil || n < 0 || n > len(c.args)-3 {
			return nil
		}
		return c.args[3 : 3+n]
	}
	return c.args[1:2]
}

// script says that the command runs a script, whose own commands follow it.
func (c *command) script() bool {
	switch c.name {
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO":
		return true
	}
	return false
}

// values returns the arguments that are not keys: where an owner may be found.
func (c *command) values() []string {
	switch {
	case c.name == "DEL" || c.name == "UNLINK" || len(c.args) < 3:
		return nil
	case c.script():
		return c.args[min(3+len(c.keys()), len(c.args)):]
	case c.name == "SETEX" || c.name == "PSETEX":
		return c.args[min(3, len(c.args)):]
	}
	return c.args[2:]
}

// value returns what the command stores or looks for; "" if it names nothing.
func (c *command) value() string {
	switch v := c.values(); {
	case len(v) == 0:
		return ""
	case writers[c.name] && !strings.Contains(c.name, "EXPIRE"):
		return v[0]
	}
	return ""
}

// expiry returns the moment on the server's wall clock, in nanoseconds, at which the
// command makes a key expire; 0 for never. ok is false if the command leaves an
// expiry that there was as it is.
func (c *command) expiry() (at int64, ok bool) {
	arg := func(i int) string {
		if i < len(c.args) {
			return c.args[i]
		}
		return ""
	}
	switch c.name {
	case "EXPIRE", "SETEX":
		return c.after(arg(2), time.Second), true
	case "PEXPIRE", "PSETEX":
		return c.after(arg(2), time.Millisecond), true
	case "EXPIREAT":
		return scale(arg(2), time.Second), true
	case "PEXPIREAT":
		return scale(arg(2), time.Millisecond), true
	case "SETNX", "GETSET", "PERSIST", "MSET", "MSETNX":
		return 0, true
	case "SET", "GETEX":
		first := 3
		if c.name == "GETEX" {
			first = 2
		}
		for i := first; i < len(c.args); i++ {
			switch strings.ToUpper(c.args[i]) {
			case "EX":
				return c.after(arg(i+1), time.Second), true
			case "PX":
				return c.after(arg(i+1), time.Millisecond), true
			case "EXAT":
				return scale(arg(i+1), time.Second), true
			case "PXAT":
				return scale(arg(i+1), time.Millisecond), true
			case "KEEPTTL":
				return 0, false
			}
		}
		return 0, true
	}
	return 0, false
}

func (c *command) after(n string, unit time.Duration) int64 { return c.wall + scale(n, unit) }

// scale saturates: a script may well ask for centuries.
func scale(n string, unit time.Duration) int64 {
	v, err := strconv.ParseInt(n, 10, 64)
	if err != nil || v <= 0 {
		return 0
	}
	return min(v, math.MaxInt64/4/int64(unit)) * int64(unit)
}

// removal says that a keyspace event means that the key is gone, by a command.
func removal(event string) bool {
	return slices.Contains([]string{"del", "rename_from", "move_from"}, event)
}
