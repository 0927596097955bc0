package report

import (
	"fmt"
	"strings"

	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/base/unit"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	chartall "bakeoff/publish/chart/all"
)

// describeMethod is how the run was done and how to reproduce it.
func (b *builder) describeMethod() {
	p := &b.page
	p.Files = b.files
	p.Lab = b.lab
	p.Commands = b.commands()
	p.Design = b.registeredDesign()
	p.Order, p.OrderNote = b.drawnOrder()
	p.Prose = b.describeInProse()
	p.Citation = b.makeCitation()
	for _, d := range chartall.Docs() {
		p.Glossary = append(p.Glossary, pair{d.Title, d.Read})
	}
}

// commands reproduce the run and verify it.
func (b *builder) commands() []command {
	run := []string{"bakeoff", "run", store.LabFile, "--seed", fmt.Sprint(b.results.Seed)}
	if b.hasPlan && b.plan.Profile != "" {
		run = append(run, "--profile", b.plan.Profile)
	}
	return []command{
		{"Run the same schedule on your machine, with the lab file below", shell.Quote(run...)},
		{"Recompute every number on this page from the raw outputs", shell.Quote("bakeoff", "verify", b.base)},
		{"Write this page again", shell.Quote("bakeoff", "report", b.base)},
	}
}

// registeredDesign is the experiment as it was registered.
func (b *builder) registeredDesign() []pair {
	r := &b.results
	out := []pair{{"Seed", fmt.Sprint(r.Seed)}, {"Baseline", r.Baseline},
		{"Margin", "±" + significant(100*r.Margin, 3) + " %; smaller differences count as equivalent"}}
	if r.PlanSHA256 != "" {
		out = append(out, pair{"SHA-256 of the plan", r.PlanSHA256})
	}
	out = append(out, pair{"Blocks",
		fmt.Sprintf("%d counted, %d void, %d after the deciding look", r.Blocks, r.Void, r.Unused)})
	if !b.hasPlan {
		return out
	}
	d := b.plan.Design
	out = append(out,
		pair{"Looks", looksOf(d)},
		pair{"Environments", map[string]string{"block": "new for each block", "run": "the same for all blocks"}[d.Instances]},
		pair{"Order", orderOf(b.plan)},
		pair{"Family", fmt.Sprintf("%s share alpha; the %d of the twin have their own alpha",
			unit.Count(len(b.plan.Family), "primary comparison"), len(b.plan.TwinFamily))})
	if d.ExactTrials > 0 {
		out = append(out, pair{"Exact metrics",
			fmt.Sprintf("deterministic once %d trials of each side agree", d.ExactTrials)})
	}
	if d.Budget > 0 {
		out = append(out, pair{"Budget", d.Budget.String()})
	}
	out = append(out, imagesOf(b.plan)...)
	if b.plan.LabSHA256 != "" {
		out = append(out, pair{"SHA-256 of the lab file", b.plan.LabSHA256})
	}
	return append(out, pair{"Measured by", "bakeoff " + b.plan.Version})
}

// imagesOf are the images of registries that the plan registered, each once, in the
// order of the contenders.
func imagesOf(p plan.Plan) (out []pair) {
	seen := map[string]bool{}
	for _, c := range p.Contenders {
		if c.Pinned == nil || c.Pinned.Digest == "" || seen[c.Image] {
			continue
		}
		seen[c.Image] = true
		out = append(out, pair{"Image " + safetext.Clip(c.Image, 200),
			safetext.Clip(c.Pinned.Reference, 400) + ", pinned to " + c.Pinned.Digest})
	}
	return out
}

// looksOf says after how many blocks a verdict is possible.
func looksOf(d manifest.Design) string {
	if len(d.Looks) == 0 {
		return "none: too few blocks to decide anything"
	}
	return fmt.Sprintf("after %s blocks, with alphas %s", listValues(d.Looks), listValues(d.Alphas))
}

// orderOf says in which order a block was visited.
func orderOf(p plan.Plan) string {
	all := "each block visits all contenders in random order"
	if len(p.Blocks) > 0 && len(p.Blocks[0].Boots) > 0 {
		all = fmt.Sprintf("each block has %d boots in random order, each of which visits its contenders in random order",
			len(p.Blocks[0].Boots))
	}
	if p.Design.Mirror {
		all += ", then in the mirrored order"
	}
	return all
}

func listValues[T any](vs []T) string {
	var out []string
	for i, v := range vs {
		if i == 40 {
			out = append(out, "…")
			break
		}
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, ", ")
}

// maxOrder bounds the rows of the table of the order.
const maxOrder = 1500

// drawnOrder is the schedule as it was drawn.
func (b *builder) drawnOrder() (table, string) {
	t := table{Caption: "Order of trials", Head: []string{"block", "cell", "order"}}
	rows := 0
	for _, k := range b.plan.Blocks {
		for _, v := range k.Visits {
			if rows++; rows <= maxOrder {
				t.Rows = append(t.Rows, []string{blockName(k), v.Cell, safetext.Clip(strings.Join(v.Order, " "), 2000)})
			}
		}
	}
	note := ""
	if rows > maxOrder {
		note = fmt.Sprintf("The first %d of %d visits. %s has all of them.", maxOrder, rows, store.PlanFile)
	}
	return t, note
}

func blockName(k plan.Block) string {
	if k.Spare {
		return fmt.Sprintf("%d (spare)", k.Index)
	}
	return fmt.Sprint(k.Index)
}
