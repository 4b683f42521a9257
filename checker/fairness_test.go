package checker

import (
	"testing"

	"lockstress/history"
)

func TestFairnessIndex(t *testing.T) {
	for name, c := range map[string]struct {
		grants []int // by client; each asked once more in vain
		want   float64
		ok     bool
	}{
		"even shares":         {[]int{5, 5, 5, 5}, 1, true},
		"one of four has all": {[]int{8, 0, 0, 0}, 0.25, true},
		"uneven":              {[]int{6, 2}, 0.8, true},
		"too few grants":      {[]int{1, 1}, 0, false},
		"one client":          {[]int{9}, 0, false},
	} {
		v := &view{}
		for client, n := range c.grants {
			for range n {
				v.holds = append(v.holds, &hold{client: client, acquire: &history.Operation{Outcome: history.OK}})
			}
			v.holds = append(v.holds, &hold{client: client, acquire: &history.Operation{Outcome: history.Fail}})
		}
		if got, ok := v.fairness(); ok != c.ok || got != c.want {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}
