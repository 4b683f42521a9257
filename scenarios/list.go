package scenarios

import (
	"fmt"
	"slices"
	"strings"
)

// All scenarios, in the order in which they are shown.
func All() []Scenario {
	return []Scenario{
		contention(),
		expiryMidOp(),
		gcPause(),
		lateRelease(),
		failoverPromote(),
		failoverSentinel(),
		failoverWait(),
	}
}

// Find returns the scenarios of a name: one, or all modes of it ("failover" for
// "failover/promote" and "failover/sentinel"). The error lists the known ones.
func Find(name string) ([]Scenario, error) {
	var found []Scenario
	var names []string
	for _, s := range All() {
		if s.Name == name || strings.HasPrefix(s.Name, name+"/") {
			found = append(found, s)
		}
		names = append(names, s.Name)
	}
	if found == nil {
		slices.Sort(names)
		return nil, fmt.Errorf("unknown scenario %q; known are %s", name, strings.Join(names, ", "))
	}
	return found, nil
}
