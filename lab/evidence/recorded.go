package evidence

import (
	"cmp"
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// Recorded returns the facts that a run recorded, as contender → fact → value; contender
// "" is the run itself: bakeoff's version and the design. They are those of the plan, of
// the fingerprints and, of the contenders in r, of the results. A contender without a
// fingerprint never ran.
func (o Outline) Recorded(run *store.Run, r analysis.Results) (map[string]map[string]string, error) {
	if err := cmp.Or(o.PlanErr, o.Damage); err != nil {
		return nil, fault.Op(run.Dir(), err)
	}
	p := o.Plan
	out := map[string]map[string]string{"": {
		"bakeoff": p.Version, "lab file": p.LabSHA256, "profile": cmp.Or(p.Profile, "none"),
		"instances": p.Design.Instances, "mirror": fmt.Sprint(p.Design.Mirror), "trials in a block": fmt.Sprint(trialsOf(p)),
	}}
	sources, _ := storyOf(p, "", o.Lines).cpuSources()
	for _, c := range r.Contenders {
		facts := map[string]string{"driver": c.Driver, "host": c.Host, analysis.FactCPUTime: sources[c.Name]}
		for k, v := range c.Facts {
			facts["driver."+strings.TrimPrefix(k, "driver.")] = v
		}
		out[c.Name] = facts
		fp, err := run.Fingerprint(c.Name)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for k, v := range fp.Facts {
			// fs./data=/where/it/lies: the place is another in each run.
			if k, _, _ := strings.Cut(k, "="); facts[k] == "" {
				facts[k] = v
			}
		}
	}
	for _, c := range p.Contenders {
		if out[c.Name] == nil {
			continue
		}
		for _, f := range c.Files {
			out[c.Name]["file "+f.To] = f.Digest
		}
		if c.Image != "" {
			out[c.Name]["image"] = c.Image
		}
	}
	return out, nil
}

func trialsOf(p *plan.Plan) int {
	if len(p.Blocks) == 0 {
		return 0
	}
	return len(p.Blocks[0].Slots())
}
