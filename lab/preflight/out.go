package preflight

import (
	"slices"
	"strings"

	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
)

// LeftOut is what a contender cannot run for one reason, which is known before the run: no
// block tries it.
type LeftOut struct {
	Contender string
	Cells     []string
	Reason    string
}

// leaveOut lists the cells that contenders cannot run, and those that the baseline cannot run:
// without it they compare nothing.
func (v inspector) leaveOut(s Survey) (out []LeftOut) {
	why := v.reasons(s)
	for _, c := range v.plan.Contenders {
		if !s.Able(c.Name) {
			continue
		}
		from := len(out)
		for _, cell := range v.plan.Cells {
			reason, base := why[plan.At(c.Name, cell.Name)], why[plan.At(v.plan.Baseline, cell.Name)]
			switch {
			case c.TwinOf != "":
				reason = base
			case reason == "" && base != "":
				reason = "the baseline " + v.plan.Baseline + " cannot run it: " + base
			}
			if reason == "" {
				continue
			}
			i := slices.IndexFunc(out[from:], func(o LeftOut) bool { return o.Reason == reason })
			if i < 0 {
				i, out = len(out)-from, append(out, LeftOut{Contender: c.Name, Reason: reason})
			}
			out[from+i].Cells = append(out[from+i].Cells, cell.Name)
		}
	}
	return out
}

// reasons says why contenders cannot run cells. A program that a contender brings itself, or
// looks for in places of its own, may exist where the host has none.
func (v inspector) reasons(s Survey) map[plan.Place]string {
	why := map[plan.Place]string{}
	note := func(at plan.Place, reason string) {
		if why[at] == "" {
			why[at] = reason
		}
	}
	for _, u := range s.Unfit {
		for _, c := range u.Contenders {
			note(plan.At(c, u.Cell), u.Err.Error())
		}
	}
	for _, l := range s.Lacks {
		for _, at := range l.loads {
			note(at, "the load generator lacks the program "+l.Program+"; "+l.Fix)
		}
		for _, at := range l.runs {
			c, _ := v.plan.Contender(at.Contender)
			if c.Env["PATH"] == "" && v.presenceInPlaced(c, execution.File{Path: l.Program}) == missing {
				note(at, "the machine lacks the program "+l.Program+"; "+l.Fix)
			}
		}
	}
	for _, a := range s.Absent {
		for _, c := range a.Contenders {
			note(plan.At(c, a.Cell), a.what())
		}
	}
	return why
}

// Settled returns the answers for all contenders. Those that can run no cell have a refusal.
func (s Survey) Settled() []Availability {
	out := slices.Clone(s.Answers)
	for i, a := range out {
		cells, reasons := 0, []string{}
		for _, o := range s.LeftOut {
			if o.Contender == a.Contender {
				cells += len(o.Cells)
				reasons = append(reasons, strings.Join(o.Cells, ", ")+": "+o.Reason)
			}
		}
		if a.Answer.OK && cells == len(s.plan.Cells) {
			out[i].Answer = driver.Availability{Reason: "it can run no cell: " + strings.Join(reasons, "; "),
				Facts: a.Answer.Facts}
		}
	}
	return out
}

// Rest says who takes no part in a run: contenders, and cells of the others.
func (s Survey) Rest() (gone map[string]bool, unfit map[plan.Place]bool) {
	gone, unfit = map[string]bool{}, map[plan.Place]bool{}
	for _, a := range s.Settled() {
		gone[a.Contender] = !a.Answer.OK
	}
	for _, o := range s.LeftOut {
		for _, cell := range o.Cells {
			unfit[plan.At(o.Contender, cell)] = true
		}
	}
	return gone, unfit
}
