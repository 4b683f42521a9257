package lock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Certain reports whether err proves that the operation did not happen and never
// will. It is meant for the error of exactly one attempt (a client with MaxRetries
// -1) and leans to false: a failure wrongly called certain makes a history lie,
// while one wrongly called unknown only weakens it.
//
// Certain are the sentinels of this package except [ErrUnknown]; failures before
// anything was sent (dialing, waiting for a pooled connection, a closed client);
// and the replies with which a server declines a command before it runs it.
//
// Not certain are nil, timeouts, resets, EOF, a context that ended (go-redis does
// not say whether it had written by then), redis.Nil (an answer, whose meaning
// depends on the command: GETSET has written when it answers nil), replies of an
// unknown kind, and most errors raised in the middle of a script. Of an error that
// wraps several, all must be certain, unless one of the sentinels decides.
func Certain(err error) bool {
	switch {
	case err == nil, errors.Is(err, ErrUnknown):
		return false
	case errors.Is(err, ErrBusy), errors.Is(err, ErrNotHeld), errors.Is(err, ErrRefused), errors.Is(err, ErrUnsupported):
		return true
	}
	return certain(err)
}

func certain(err error) bool {
	if unsent(err) {
		return true
	}
	if reply, ok := err.(redis.Error); ok && err != error(redis.Nil) {
		return declined(reply.Error())
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return e.Unwrap() != nil && certain(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if !certain(inner) {
				return false
			}
		}
		return len(e.Unwrap()) > 0
	}
	return false
}

// unsent looks at one error of a chain, not at what it wraps.
func unsent(err error) bool {
	switch e := err.(type) {
	case *net.OpError:
		return e.Op == "dial" // even if it timed out: there was no connection to send on
	case *net.DNSError, *tls.CertificateVerificationError:
		return true
	case syscall.Errno:
		return e == syscall.ECONNREFUSED // on TCP only connect(2) answers so
	}
	switch err {
	case redis.ErrPoolTimeout, redis.ErrPoolExhausted, redis.ErrClosed:
		return true
	}
	// The dialer of a Sentinel client found no primary. There is no value or type
	// to compare with. A wrapper may precede the text, but a reply cannot hold it.
	return strings.HasPrefix(err.Error(), "redis: all sentinels specified in configuration are unreachable") ||
		strings.HasPrefix(err.Error(), "redis: no sentinels configured")
}

// Codes of replies by which a server declines a command without having run it.
var (
	// passing conditions: the next attempt may fare better.
	passing = []string{
		"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
		"BUSY", "NOREPLICAS", "OOM", "MISCONF", "NOSCRIPT",
	}
	lasting = []string{"NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "CROSSSLOT", "EXECABORT", "DENIED"}
	// Plain ERR is anything at all, and proxies use it for what they lost on the
	// way, so only texts of a server's checks of a command count.
	checks = []string{
		"ERR max number of clients reached",
		"ERR max number of clients + cluster connections reached",
		"ERR unknown command",
		"ERR wrong number of arguments",
		"ERR syntax error",
		"ERR invalid expire time",
		"ERR value is not an integer or out of range",
		"ERR DISABLED",
	}
	// A script's writes are refused for these reasons before its first write or
	// not at all: the state of the server that decides them does not change while
	// a script runs, and OOM is asked of a script that has written nothing yet
	// (scriptCall in Redis' script.c).
	beforeScriptWrites = []string{"READONLY", "OOM", "NOREPLICAS", "MISCONF"}
)

func declined(reply string) bool {
	if code, ok := scriptError(reply); ok {
		return slices.Contains(beforeScriptWrites, code)
	}
	code, _, _ := strings.Cut(reply, " ")
	if slices.Contains(passing, code) || slices.Contains(lasting, code) {
		return true
	}
	return slices.ContainsFunc(checks, func(text string) bool { return strings.HasPrefix(reply, text) })
}

// scriptError tells whether a reply was raised by a running script, and by which
// code. Redis 7 appends ", on @user_script:LINE." to the reply of the inner
// command; older ones put "-CODE …" into a text of their own.
func scriptError(reply string) (code string, ok bool) {
	if !strings.Contains(reply, "user_script") && !strings.HasPrefix(reply, "ERR Error running script") {
		return "", false
	}
	code, _, _ = strings.Cut(reply, " ")
	if code != "ERR" {
		return code, true
	}
	if _, inner, found := strings.Cut(reply, ": -"); found {
		code, _, _ = strings.Cut(inner, " ")
	}
	return code, true
}

// transient says of a certain failure whether trying again may help.
func transient(err error) bool {
	if errors.Is(err, redis.ErrClosed) {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return true // nothing was sent
	}
	text := reply.Error()
	code, _, _ := strings.Cut(text, " ")
	if inner, ok := scriptError(text); ok {
		code = inner
	}
	return slices.Contains(passing, code) || strings.HasPrefix(text, "ERR max number of clients")
}

// Settle says of the error of one attempt whether it is final: it returns nil for
// nil, an error of this package as it is, and else err wrapped in [ErrRefused] or
// [ErrUnknown].
func Settle(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrUnknown),
		errors.Is(err, ErrBusy), errors.Is(err, ErrNotHeld), errors.Is(err, ErrRefused), errors.Is(err, ErrUnsupported):
		return err
	case certain(err):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// Sendable returns an [ErrRefused] if ctx is over already. It is the only way to
// know that nothing was sent: go-redis answers alike when a context ends later.
func Sendable(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%w: nothing was sent: %w", ErrRefused, err)
	}
	return nil
}
