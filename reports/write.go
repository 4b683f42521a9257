package reports

import (
	"fmt"
	"os"
	"path/filepath"

	"lockstress/results"
)

// WriteAll draws the plots of run into dir/plots and writes dir/report.html. It
// returns the path of the page.
func WriteAll(dir string, run *results.Run) (page string, err error) {
	plots, err := Plots(filepath.Join(dir, "plots"), run)
	if err != nil {
		return "", fmt.Errorf("drawing the plots: %w", err)
	}
	page = filepath.Join(dir, "report.html")
	f, err := os.Create(page)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := Page(f, run, plots); err != nil {
		return "", fmt.Errorf("writing %s: %w", page, err)
	}
	return page, f.Close()
}
