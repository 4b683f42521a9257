// Package redistest says what tests do where Redis is missing.
package redistest

import (
	"os"
	"os/exec"
	"testing"
)

// Need skips the test where there is no redis-server to start; in CI, where CI=true,
// a missing part is a failure.
func Need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("redis-server is not on the PATH")
	}
	t.Skip("redis-server is not on the PATH: make setup")
}
