package analysis

// Open tells that further blocks could still bring the comparison a verdict.
func (c Comparison) Open() bool {
	if !c.Primary || c.Verdict != Inconclusive {
		return false
	}
	for _, g := range c.Gates {
		if total(g.Name) {
			return false
		}
	}
	return true
}

// Decided tells for every contender whether it can leave the later blocks:
// all its primary comparisons have a verdict, or can never get one. A cell
// that never succeeded is given up at the first look. The baseline and the
// twin stay until all others are decided. Where no metric is primary nobody
// is ever decided: such a run goes on to its end.
func (r Results) Decided() map[string]bool {
	out := map[string]bool{}
	open, all := r.open()
	for _, c := range r.Contenders {
		done := !open[c.Name]
		if c.Name == r.Baseline || r.Twin != nil && c.Name == r.Twin.Name {
			done = all
		}
		out[c.Name] = done
	}
	return out
}

// AllDecided tells that no contender is open. A run of nothing but a
// baseline and its twin ends with the twin's verdicts.
func (r Results) AllDecided() bool {
	_, all := r.open()
	return all
}

func (r Results) open() (open map[string]bool, all bool) {
	open = map[string]bool{}
	primary := false
	for _, k := range r.Cells {
		for _, m := range k.Metrics {
			primary = primary || m.Primary
		}
	}
	started := len(r.Looks) > 0 && r.Blocks >= r.Looks[0]
	twin := ""
	if r.Twin != nil {
		twin = r.Twin.Name
	}
	others := 0
	for _, c := range r.Contenders {
		if c.Name != r.Baseline && c.Name != twin {
			others++
		}
		open[c.Name] = !primary || !started
	}
	for _, c := range r.Comparisons {
		open[c.Contender] = open[c.Contender] || c.Open()
	}
	all = primary && started
	if r.Twin != nil {
		for _, c := range r.Twin.Comparisons {
			open[twin] = open[twin] || c.Open()
		}
	}
	for _, c := range r.Contenders {
		switch {
		case c.Name == r.Baseline:
		case c.Name == twin && others > 0:
		default:
			all = all && !open[c.Name]
		}
	}
	return open, all
}
