package token

import "lockstress/impls/lock"

// NewWatchdog is [Token] with a heartbeat (see lock.Heartbeat): while the holder's
// process runs, its lease is extended every third of the TTL, and the holder is told
// when it is lost. It refuses a grant whose answer was read too late.
//
// It saves a holder whose work takes long, not one whose process is stopped: the
// heartbeat stops with it, and between going on and noticing the loss the holder may
// do harm. A holder that hangs keeps the lock for ever.
//
// The connection must heed context deadlines (lock.Env.Punctual).
func NewWatchdog(env lock.Env) (lock.Lock, error) {
	inner, err := NewToken(env)
	if err != nil {
		return nil, err
	}
	return lock.Watch(inner, env)
}
