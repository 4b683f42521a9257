package reports

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstress/results"
)

func TestDump(t *testing.T) {
	plots, err := Plots("/tmp/lsplots", loadSample(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plots {
		fmt.Println(p.Kind, p.Title, p.PNG, p.Absent)
	}
	_ = bytes.MinRead
	_ = png.Decode
	_ = os.ReadFile
	_ = filepath.Join
	_ = slices.Contains[[]int]
	_ = strings.Contains
	_ = results.Schema
}
