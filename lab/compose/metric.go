package compose

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/yamltree"
	"bakeoff/measure/workload/command"
)

// metric is a metric that gets a verdict: one of the workload command, or a number in
// the output of the commands.
type metric struct {
	word string // the flag with its text
	name string // wall, score …
	find string // json:$.rps; "" unless it is in the output
}

// parseMetric reads NAME, or FIND:higher or FIND:lower of --metric.
func parseMetric(text string) (metric, error) {
	m := metric{word: "--metric " + yamltree.Show(text), name: text}
	if slices.Contains(metricNames(), text) {
		return m, nil
	}
	for suffix, name := range map[string]string{":higher": "score", ":lower": "cost"} {
		if find, ok := strings.CutSuffix(text, suffix); ok {
			m.name, m.find = name, find
			return m, m.check()
		}
	}
	for _, kind := range []string{"json:", "regexp:", "last-line"} {
		if strings.HasPrefix(text, kind) {
			return m, fault.WithFix(fault.New(fault.Invalid, "%s does not say whether higher or lower values are "+
				"better", m.word),
				"write "+text+":higher or "+text+":lower")
		}
	}
	return m, fault.WithFix(fault.New(fault.Invalid, "%s is not a metric", m.word), "use "+yamltree.OneOf(metricNames())+
		", or find a number in the output, as in --metric 'json:$.rps:higher'")
}

// check refuses what the workload cannot find.
func (m metric) check() error {
	w := command.Workload{}
	values := param.Defaults(w.Doc().Params)
	values["argv"], values[m.name] = "true", m.find
	if err := w.Check(values); err != nil {
		return fault.New(fault.Invalid, "%s: %s", m.word, strings.TrimPrefix(err.Error(), "command: "+m.name+": "))
	}
	return nil
}

// metricNames are the metrics that every command has.
func metricNames() []string {
	measured := lists.Filter(command.Workload{}.Doc().Metrics, func(m sample.Metric) bool {
		return m.Name != "score" && m.Name != "cost"
	})
	return lists.Map(measured, func(m sample.Metric) string { return m.Name })
}

// parseMetrics reads all of --metric; the elapsed time is the metric without any.
func parseMetrics(texts []string) ([]metric, error) {
	var out []metric
	for _, text := range texts {
		m, err := parseMetric(text)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(out, func(o metric) bool { return o.name == m.name }); i >= 0 {
			why := fmt.Sprintf("%s: there is %s already", m.word, out[i].word)
			if m.find != "" {
				why += ", and a run has one number of the output for each direction"
			}
			return nil, fault.WithFix(fault.New(fault.Invalid, "%s", why), "remove one of them")
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		out = []metric{{name: "wall"}}
	}
	return out, nil
}
