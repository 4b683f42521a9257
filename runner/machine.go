package runner

import (
	"bufio"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"lockstress/results"
	"lockstress/topology"
)

// isFatal says of a trial's error whether every other trial would fail the same way.
func isFatal(err error) bool {
	return errors.Is(err, topology.ErrNoRedis) || errors.Is(err, topology.ErrNoDocker) || errors.Is(err, topology.ErrNoImage)
}

// libraries whose versions a reader of results wants to know.
var libraries = []string{
	"github.com/redis/go-redis/v9", "github.com/anishathalye/porcupine", "github.com/Shopify/toxiproxy/v2",
}

func versions() map[string]string {
	v := map[string]string{"go": runtime.Version(), "os": osVersion(), "stress": "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v["stress"] = info.Main.Version
	for _, dep := range info.Deps {
		for _, name := range libraries {
			if dep.Path == name {
				v[name] = dep.Version
			}
		}
	}
	return v
}

func machine() results.Machine {
	return results.Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(),
		CPU:    field("/proc/cpuinfo", "model name"),
		Memory: kilobytes(field("/proc/meminfo", "MemTotal")),
	}
}

func osVersion() string {
	if name := strings.Trim(field("/etc/os-release", "PRETTY_NAME"), `"`); name != "" {
		return name
	}
	return runtime.GOOS
}

// field reads "name: value" or "name=value" from a file; "" where there is none.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		at := strings.IndexAny(lines.Text(), ":=")
		if at > 0 && strings.TrimSpace(lines.Text()[:at]) == name {
			return strings.TrimSpace(lines.Text()[at+1:])
		}
	}
	return ""
}

func kilobytes(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(s, " kB"), 10, 64)
	return n << 10
}
