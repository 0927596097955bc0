package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/param"
	"bakeoff/base/shell"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
)

// Factors returns what the lab file makes different on purpose between a
// contender and the baseline at a cell: keys of the contender, parameters of the
// cell (params.NAME) and environment variables (env.NAME). If the drivers
// differ, their options and images are not compared: they follow from the driver.
func (p *Plan) Factors(contender, cell string) []analysis.Factor {
	c, _ := p.Contender(contender)
	base, _ := p.Contender(p.Baseline)
	work, _ := p.CellOf(contender, cell)
	baseWork, _ := p.CellOf(p.Baseline, cell)
	var out []analysis.Factor
	us, them := settings(c.Contender, work.Params), settings(base.Contender, baseWork.Params)
	for i := range us {
		if us[i].driver && c.Driver != base.Driver {
			continue
		}
		for _, name := range analysis.Names(us[i].values, them[i].values) {
			a, b := them[i].values[name], us[i].values[name]
			if a != b && (us[i].prefix != filesPrefix || !sameContent(a, b)) {
				out = append(out, analysis.Factor{Name: us[i].prefix + name, Baseline: a, Contender: b})
			}
		}
	}
	return out
}

// group is settings of a contender that belong together, by their names.
type group struct {
	prefix string
	driver bool // they depend on the driver
	values map[string]string
}

// settings returns everything that a lab file may set for a contender at a cell,
// in the same groups for all contenders. It omits values that are not in the lab file.
func settings(c manifest.Contender, params param.Values) []group {
	single := func(name, value string) group {
		if value == "" {
			return group{}
		}
		return group{values: map[string]string{name: value}}
	}
	image := single("image", c.Image)
	image.driver = true
	return []group{
		single("driver", c.Driver), single("host", c.Host), single("system", c.System), image,
		{driver: true, values: texts(c.Options)},
		single("cpus", strconv.Itoa(c.CPUs)), single("quota", number(c.Quota)), single("memory", c.Memory.String()),
		single("io.read", rate(c.IO.Read)), single("io.write", rate(c.IO.Write)),
		{prefix: "volumes.", values: volumes(c.Volumes)}, {prefix: "tuning.", values: c.Tuning},
		single("packages", strings.Join(c.Packages, " ")),
		{prefix: "params.", values: texts(params)}, {prefix: "env.", values: c.Env},
		{prefix: filesPrefix, values: placed(c.Files)},
	}
}

// texts returns values as a person would write them: a list as a command line.
func texts(values param.Values) map[string]string {
	out := maps.Clone(map[string]string(values))
	for name, text := range out {
		if strings.ContainsAny(text, "\n\r") {
			out[name] = shell.Quote(values.List(name)...)
		}
	}
	return out
}

func volumes(all []manifest.Volume) map[string]string {
	out := map[string]string{}
	for _, v := range all {
		words := []string{v.Backing}
		if v.Size > 0 {
			words = append(words, v.Size.String())
		}
		for _, on := range []string{v.Device, v.Pool} {
			if on != "" {
				words = append(words, on)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v.Properties)) {
			words = append(words, name+"="+v.Properties[name])
		}
		out[v.Path] = strings.Join(words, " ")
	}
	return out
}

func number(f float64) string {
	if f == 0 {
		return ""
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func rate(b unit.Bytes) string {
	if b == 0 {
		return ""
	}
	return b.String() + "/s"
}
