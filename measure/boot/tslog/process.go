package tslog

import (
	"fmt"

	"bakeoff/base/bootmodel"
)

// addProcesses adds a track with a span for each process of debug.tslog_user.
func (l *log) addProcesses(r *bootmodel.Recording) {
	used := l.processes
	end := l.end
	at := map[uint64]int{} // of each process in used
	for i, p := range used {
		end = max(end, int64(p.exit)+l.shift, int64(p.fork)+l.shift)
		at[p.pid] = i
	}
	parents := make([]int, len(used))
	for i, p := range used {
		parents[i] = -1
		if parent, ok := at[p.parent]; ok && parent != i {
			parents[i] = parent
		}
	}
	cutCycles(parents)
	base := len(r.Tracks)
	for i, p := range used {
		t := bootmodel.Track{Name: processName(used, parents, i), ID: fmt.Sprint(p.pid), Parent: -1,
			Kind: bootmodel.KindProcess}
		if parents[i] >= 0 {
			t.Parent = base + parents[i]
		}
		s := bootmodel.Span{Name: t.Name, Track: base + i, Parent: -1, Start: int64(p.fork) + l.shift,
			End: int64(p.exit) + l.shift}
		if p.exit == 0 {
			s.End, s.Open = end, true
		}
		s.End = max(s.End, s.Start)
		r.Tracks = append(r.Tracks, t)
		r.Spans = append(r.Spans, s)
	}
}

// cutCycles makes each process that descends from itself one without a parent.
func cutCycles(parents []int) {
	const unseen, onTheWay, done = 0, 1, 2
	state := make([]byte, len(parents))
	for i := range parents {
		var way []int
		at := i
		for ; at >= 0 && state[at] == unseen; at = parents[at] {
			state[at] = onTheWay
			way = append(way, at)
		}
		if at >= 0 && state[at] == onTheWay {
			parents[at] = -1
		}
		for _, j := range way {
			state[j] = done
		}
	}
}

// processName is the program that a process executed, or the first file that it looked
// up. A process with neither is a copy of its parent.
func processName(used []process, parents []int, i int) string {
	prefix := ""
	for at := i; at >= 0; at = parents[at] {
		if p := used[at]; p.exec != "" {
			return prefix + p.exec
		} else if p.namei != "" && at == i {
			return p.namei
		}
		prefix = "fork of "
	}
	return fmt.Sprintf("process %d", used[i].pid)
}
