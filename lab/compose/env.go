package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
	"bakeoff/lab/manifest"
)

// Env is an environment as a person names it: DRIVER[:IMAGE].
type Env struct {
	word   string // the argument or flag, for messages
	text   string // DRIVER[:IMAGE] as written
	name   string // DRIVER as written: crun
	image  string
	driver manifest.DriverEntry
	// keys are what the driver's name stands for, in order: driver: oci, runtime: crun.
	keys  [][2]string
	boots bool // it was named to be booted: files may stand in its place, and no command is needed
}

// ParseEnv reads DRIVER[:IMAGE]. DRIVER is the name of a driver, or another name that
// people know it by, such as crun for the driver oci. word is the argument or flag in
// errors, which are of kind fault.Invalid.
func ParseEnv(text, word string, cat manifest.Catalogue) (Env, error) {
	return parseEnv(text, word, cat, nil)
}

// parseEnv is ParseEnv with options of the driver that have values.
func parseEnv(text, word string, cat manifest.Catalogue, set param.Values) (Env, error) {
	e := Env{word: word, text: text, boots: set != nil}
	e.name, e.image, _ = strings.Cut(text, ":")
	if err := e.find(cat); err != nil {
		return e, err
	}
	options := param.Defaults(e.driver.Options)
	for _, kv := range e.keys[1:] {
		options[kv[0]] = kv[1]
	}
	maps.Copy(options, set)
	own := options.Match(e.driver.OwnRoot)
	switch {
	case (!e.driver.Image || own) && e.image != "":
		return e, fault.WithFix(fault.New(fault.Invalid, "%s: driver %s does not use an image", word, e.driver.Name),
			"write "+e.name)
	case e.driver.Image && !own && e.image == "":
		return e, fault.WithFix(fault.New(fault.Invalid, "%s has no image, and driver %s needs one", word, e.driver.Name),
			"write "+e.name+":"+DefaultImage)
	}
	return e, nil
}

// DefaultImage is the image that messages, completions and Init name.
const DefaultImage = "debian:bookworm"

// find looks up the driver of e.
func (e *Env) find(cat manifest.Catalogue) error {
	for _, d := range cat.Drivers {
		switch meant := d.Also[e.name]; {
		case d.Name == e.name:
			e.driver, e.keys = d, [][2]string{{"driver", d.Name}}
			return nil
		case meant != "":
			e.driver, e.keys = d, keysOf(meant)
			return nil
		}
	}
	err := fault.New(fault.Invalid, "%s: there is no driver %s", e.word, yamltree.Show(e.name))
	if !e.boots && strings.ContainsAny(e.text, " \t\n") {
		return fault.WithFix(err, "write a command after --, or with -c")
	}
	fix := yamltree.Meant(e.name, driverNames(cat))
	switch {
	case strings.HasPrefix(fix, "did you mean"):
	case e.boots:
		fix = "name a driver of bakeoff list drivers, or a file that exists"
	default:
		fix = "name a driver of bakeoff list drivers, and write a command after --"
	}
	return fault.WithFix(err, fix)
}

// keysOf reads what manifest.DriverEntry.Also says: "oci, runtime: crun".
func keysOf(meant string) [][2]string {
	first, rest, _ := strings.Cut(meant, ", ")
	keys := [][2]string{{"driver", first}}
	for kv := range strings.SplitSeq(rest, ", ") {
		if key, value, ok := strings.Cut(kv, ": "); ok {
			keys = append(keys, [2]string{key, value})
		}
	}
	return keys
}

// driverNames are all names that drivers have.
func driverNames(cat manifest.Catalogue) []string {
	var out []string
	for _, d := range cat.Drivers {
		out = append(out, d.Name)
		for name := range d.Also {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Envs offers an environment for each driver, for completion: host, crun:debian:bookworm.
func Envs(cat manifest.Catalogue) []string {
	var out []string
	for _, d := range cat.Drivers {
		names := []string{d.Name}
		for name, meant := range d.Also {
			if len(keysOf(meant)) > 1 { // a variant of the driver, not another word for it
				names = append(names, name)
			}
		}
		for _, name := range names {
			if d.Image {
				name += ":" + DefaultImage
			}
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// shared tells whether the files of an environment are those of the host.
func (e Env) shared() bool { return e.driver.Name == "host" || e.driver.Whole }

// put writes the keys of e that a contender has after its name.
func (e Env) put(w *writer) {
	for _, kv := range e.keys {
		w.put(origin{e.word, kv[0]}, "    %s: %s", kv[0], scalar(kv[1]))
	}
	if e.image != "" {
		w.put(origin{e.word, "image"}, "    image: %s", scalar(e.image))
	}
}

// envNames names environments by their drivers, and by their images where two have
// the same driver.
func envNames(envs []Env) ([]string, error) {
	seen := map[string]string{}
	for _, e := range envs {
		if first, ok := seen[e.text]; ok {
			return nil, fault.WithFix(fault.New(fault.Invalid, "%s is the same environment as %s", e.word, first),
				"remove one; bakeoff compares the baseline with a twin of itself in any case")
		}
		seen[e.text] = e.word
	}
	return lists.Map(envs, func(e Env) string {
		alone := len(lists.Filter(envs, func(o Env) bool { return o.name == e.name })) == 1
		if alone || e.image == "" {
			return slug(e.name)
		}
		image := e.image
		if distribution, release, ok := strings.Cut(image, ":"); ok && sameDistribution(envs, e.name, distribution) {
			image = release
		}
		return slug(e.name + "-" + image)
	}), nil
}

// sameDistribution tells whether all images of a driver differ only after the colon.
func sameDistribution(envs []Env, name, distribution string) bool {
	return !slices.ContainsFunc(envs, func(e Env) bool {
		return e.name == name && !strings.HasPrefix(e.image, distribution+":")
	})
}

// argument names an argument in messages.
func argument(text string) string { return fmt.Sprintf("argument %s", yamltree.Show(text)) }
