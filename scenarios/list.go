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
		crashHolder(),
		crashMidAcquire(),
		lostReply(),
		lostReplyRetry(),
		lateWrite(),
		gcPauseAcquiring(),
		partitionMinority(),
		partitionMajority(),
		partitionHolder(),
		slowNode(),
		slowMajority(),
		splitVote(),
		nodeRestart(),
		nodeRestartDurable(),
		nodeRestartDelayed(),
		scriptFlush(),
		scriptFlushBare(),
		eviction(),
		evictionRefused(),
		failoverMidHold(),
		failoverIsolated(),
		partialLookFirst(),
		partialReleaseFirst(),
		reentry(),
		getsetRace(),
		herdFixed(),
		herdJitter(),
		starvation(),
	}
}

// Everything is the name that stands for all scenarios in [Find], extra ones included.
const Everything = "all"

// Find returns the scenarios of a name: one, or all modes of it ("failover" for
// "failover/promote", "failover/sentinel" and so on), or all there are for
// [Everything]. A name of a scenario that has modes besides stands for itself. The
// error lists the known ones.
func Find(name string) ([]Scenario, error) {
	var modes []Scenario
	var names []string
	for _, s := range All() {
		switch {
		case s.Name == name:
			return []Scenario{s}, nil
		case name == Everything, strings.HasPrefix(s.Name, name+"/"):
			modes = append(modes, s)
		}
		names = append(names, s.Name)
	}
	if modes == nil {
		slices.Sort(names)
		return nil, fmt.Errorf("unknown scenario %q; known are %s, and %s", name, strings.Join(names, ", "), Everything)
	}
	return modes, nil
}

// Usual are the scenarios that are played when nobody asks for certain ones.
func Usual() []Scenario {
	return slices.DeleteFunc(All(), func(s Scenario) bool { return s.Extra })
}
