package witness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstress/history"
)

// snapshot is what a server had at one point of its stream: where the line of the
// script that took it stands.
type snapshot struct {
	keys  map[string]*held // expiry counts from the snapshot, 0 for never
	conns map[string]*conn
	err   error
}

// snapScript lists the keys like ARGV[2] with their milliseconds to live and what
// they hold. ARGV[1] makes its line in MONITOR known.
const snapScript = `
local found, cursor = {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[2], 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local kind, values = redis.call('TYPE', key).ok, {}
    if kind == 'string' then values = {redis.call('GET', key)}
    elseif kind == 'hash' then values = redis.call('HGETALL', key) end
    if kind ~= 'none' then found[#found + 1] = {key, redis.call('PTTL', key), values} end
  end
until cursor == '0'
return found`

// take asks a server what it has.
func take(ctx context.Context, side *redis.Client, nonce, pattern string, owner func(string) int64) snapshot {
	s := snapshot{keys: map[string]*held{}, conns: map[string]*conn{}}
	list, err := side.ClientList(ctx).Result()
	if err != nil {
		s.err = fmt.Errorf("listing the clients: %w", err)
		return s
	}
	for client := range strings.Lines(list) {
		addr, k := "", &conn{}
		for field := range strings.FieldsSeq(client) {
			name, value, _ := strings.Cut(field, "=")
			switch name {
			case "addr":
				addr = value
			case "name":
				k.name = value
			case "flags":
				k.upstream = strings.Contains(value, "M")
			}
		}
		s.conns[addr] = k
	}
	found, err := side.Eval(ctx, snapScript, nil, nonce, pattern).Slice()
	if err != nil {
		s.err = fmt.Errorf("listing the lock keys: %w", err)
		return s
	}
	for _, f := range found {
		entry, _ := f.([]any)
		if len(entry) != 3 {
			continue
		}
		key, _ := entry[0].(string)
		ttl, _ := entry[1].(int64)
		values, _ := entry[2].([]any)
		h := &held{}
		if ttl > 0 {
			h.expiry = (time.Duration(ttl) * time.Millisecond).Nanoseconds()
		}
		for _, v := range values {
			text, _ := v.(string)
			hold := owner(text)
			if h.value == "" || hold != 0 && h.hold == 0 {
				h.value, h.hold = text, hold
			}
		}
		s.keys[key] = h
	}
	return s
}

// begin takes the snapshot for the truth from here on and reports how it differs
// from what was known, which is nothing at first.
func (t *tracker) begin(snap snapshot, l line, at int64) {
	t.live, t.pending = true, nil
	t.skip()
	for addr, k := range snap.conns {
		if old := t.conns[addr]; old != nil {
			old.upstream = k.upstream
		} else {
			t.conns[addr] = k
		}
	}
	for _, key := range sortedKeys(t.held) {
		if h := t.held[key]; snap.keys[key] == nil {
			lock, _ := t.key(key)
			if h.expiry != 0 && h.expiry <= l.wall {
				t.gone(key, lock, "expired", at)
				continue
			}
			s := t.note(lock, at)
			s.Effect, s.Hold, s.Value = history.Removed, h.hold, h.value
			s.Text = "the key of " + holder(h.hold, h.value) + " is gone since the connection was lost"
			delete(t.held, key)
			t.tell(s)
		}
	}
	for _, key := range sortedKeys(snap.keys) {
		lock, ok := t.key(key)
		if !ok {
			continue
		}
		h, old := snap.keys[key], t.held[key]
		s := t.note(lock, at)
		s.Effect, s.Hold, s.Value, s.TTL = history.Set, h.hold, h.value, h.expiry
		if h.expiry != 0 {
			h.expiry += l.wall
		}
		t.held[key] = h
		if old != nil && old.hold == h.hold && old.value == h.value {
			continue
		}
		s.Text = fmt.Sprintf("found %s of %s, %s", lock, holder(h.hold, h.value), expires(s.TTL))
		t.tell(s)
	}
}

// skip takes no notice of the script that runs: it is the witness's own.
func (t *tracker) skip() { t.script = &script{ours: true} }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
