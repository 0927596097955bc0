package evidence

import (
	"reflect"

	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
)

// standings says on which host every contender of a plan stands, which of
// them are declared equal, and which contenders are the baseline elsewhere.
func standings(p *plan.Plan) map[string]analysis.Placement {
	base, _ := p.Contender(p.Baseline)
	out := map[string]analysis.Placement{}
	for _, c := range p.Contenders {
		like := c.Contender
		like.Name, like.Host, like.System = base.Name, base.Host, base.System
		out[c.Name] = analysis.Placement{Host: c.Host, Equals: equalHost(p, c.Host),
			Like: c.Host != base.Host && c.System == "" && reflect.DeepEqual(like, base.Contender)}
	}
	return out
}

// equalHost follows declarations of equality from a host to the one that no
// declaration leads on from. A circle ends where it was entered from the
// first of its names.
func equalHost(p *plan.Plan, host string) string {
	seen := map[string]bool{}
	for !seen[host] {
		seen[host] = true
		to := p.Hosts[host].EqualTo
		if to == "" {
			return host
		}
		host = to
	}
	least := host
	for at := p.Hosts[host].EqualTo; at != host; at = p.Hosts[at].EqualTo {
		least = min(least, at)
	}
	return least
}
