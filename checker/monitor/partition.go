package monitor

// Locks and resources with different keys are different objects, and a history is
// linearizable exactly when its part on each object is (Herlihy and Wing 1990,
// theorem 1).

// eachKey judges the operations of every key by themselves. judge is given the
// operations of one key and must return indices into that slice. The first illegal
// key decides; failing that, the first unknown one.
func eachKey[T any](ops []T, key func(*T) int32, judge func([]T) Verdict) Verdict {
	if len(ops) == 0 {
		return legal()
	}
	first := key(&ops[0])
	single := true
	for i := range ops {
		if key(&ops[i]) != first {
			single = false
			break
		}
	}
	if single {
		v := judge(ops)
		if v.Result != Legal {
			v.Key = first
		}
		return v
	}

	// Dense numbers in order of first appearance, so that keys may be any int32.
	number := map[int32]int32{}
	var keys []int32
	of := make([]int32, len(ops))
	var sizes []int
	for i := range ops {
		k := key(&ops[i])
		n, ok := number[k]
		if !ok {
			n = int32(len(keys))
			number[k] = n
			keys = append(keys, k)
			sizes = append(sizes, 0)
		}
		of[i] = n
		sizes[n]++
	}
	start := make([]int, len(keys)+1)
	for n, size := range sizes {
		start[n+1] = start[n] + size
	}
	at := append([]int(nil), start[:len(keys)]...)
	grouped := make([]T, len(ops))
	index := make([]int32, len(ops))
	for i := range ops {
		n := of[i]
		grouped[at[n]] = ops[i]
		index[at[n]] = int32(i)
		at[n]++
	}
	result := legal()
	for n, k := range keys {
		v := judge(grouped[start[n]:start[n+1]])
		if v.Result == Legal || v.Result == Unknown && result.Result == Unknown {
			continue
		}
		v.Key = k
		for j, w := range v.Witness {
			v.Witness[j] = int(index[start[n]+w])
		}
		if v.Result == Illegal {
			return v
		}
		result = v
	}
	return result
}
