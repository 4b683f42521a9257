package jepsen

import (
	"fmt"

	"lockstress/history"
)

var lockOps = map[string]history.Op{
	"acquire": history.Acquire, "lock": history.Acquire, "try-lock": history.Acquire,
	"release": history.Release, "unlock": history.Release,
	"extend": history.Extend, "renew": history.Extend, "refresh": history.Extend,
}

// Convert makes a history of our own of one of a lock: acquires, releases, extensions.
//
// Every process becomes a client, and another one after an outcome that is unknown. An
// acquire begins a hold, to which the process's releases and extensions up to its next
// one belong. A :fail becomes "refused", which says nothing about who has the lock. Times
// are those of the file if all events have one and none goes back, and otherwise their
// positions. What the lock promises is not in the file: the header says that holds do not
// expire and that there are no tokens.
func Convert(h *History) (*history.History, error) {
	timed := true
	for i := range h.Events {
		if !h.Events[i].Timed || i > 0 && h.Events[i].Time < h.Events[i-1].Time {
			timed = false
		}
	}
	own := &history.History{Header: history.Header{
		Format: history.Format, Version: history.Version,
		Lock: "foreign", Guard: "none", Scenario: "foreign", Workload: "lock", Locks: true, Nodes: 1,
	}}
	type place struct {
		process int64
		key     string
	}
	client := map[int64]int{}
	hold := map[place]int64{}
	holds := int64(0)
	for i := range h.Events {
		e := &h.Events[i]
		op, ok := lockOps[e.F]
		if !ok {
			return nil, fmt.Errorf("line %d, operation %d: a %s is no operation of a lock: only these can be converted", e.Line, e.Position, e.F)
		}
		at := place{e.Process, e.Key}
		p, ok := client[e.Process]
		if !ok {
			p = own.Header.Clients
			client[e.Process] = p
			own.Header.Clients++
		}
		if e.Type == history.Invoke && (op == history.Acquire || hold[at] == 0) {
			holds++
			hold[at] = holds
		}
		out := history.Event{Time: int64(e.Position), Process: p, Type: e.Type, Op: op, Key: e.Key, Hold: hold[at]}
		if timed {
			out.Time = e.Time
		}
		switch e.Type {
		case history.Fail:
			out.Error = history.Refused
		case history.Info:
			out.Error = history.Unknown
			delete(client, e.Process)
		}
		if e.Error != "" && out.Error != "" {
			out.Error += ": " + e.Error
		}
		own.Events = append(own.Events, out)
	}
	own.Header.Clients = max(own.Header.Clients, 1)
	if own.Header.Clients > history.MaxClients {
		return nil, fmt.Errorf("%d processes: a history holds up to %d", own.Header.Clients, history.MaxClients)
	}
	if _, err := own.Operations(); err != nil {
		return nil, fmt.Errorf("converted: %w", err)
	}
	return own, nil
}
