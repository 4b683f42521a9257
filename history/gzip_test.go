package history

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadGzip(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := Encode(z, sample()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "history")
	load := func(data []byte) (*History, error) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return Load(path)
	}
	h, err := load(packed.Bytes())
	if err != nil || !equalEvents(h.Events, sample().Events) {
		t.Fatalf("%v, %+v", err, h)
	}
	// The checksum at the end is looked at: a bit of it, and every cut.
	whole := packed.Bytes()
	broken := bytes.Clone(whole)
	broken[len(broken)-6] ^= 1
	if _, err := load(broken); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a wrong checksum: %v", err)
	}
	for n := range len(whole) {
		if _, err := load(whole[:n]); err == nil {
			t.Errorf("cut to %d of %d bytes, it is read", n, len(whole))
		}
	}
}
