package manifest

import (
	"fmt"
	"regexp"
	"slices"

	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/judge/analysis"
)

// shape is the type of a value in a lab file. One tree of shapes (see lab)
// serves the check of a file, the JSON Schema and the reference page.
type shape struct {
	kind shapeKind
	spec param.Spec // of a single value
	// pattern is a regular expression that the whole text matches, rule the
	// same in words.
	pattern, rule string
	match         *regexp.Regexp
	// also are values that people write for one of the spec's, and what they
	// are to write instead.
	also   map[string]string
	of     *shape  // of the items of a list, of the values of a map
	key    *shape  // of the names in a map
	fields []field // of an object
	// by names the field of an object whose value chooses further fields:
	// the driver chooses its options, the workload its parameters.
	by       string
	variants []variant
	either   []*shape
	example  string
}

type shapeKind string

const (
	single   shapeKind = "value"
	list     shapeKind = "list"
	dict     shapeKind = "map"
	object   shapeKind = "object"
	eitherOf shapeKind = "either"
)

type field struct {
	name     string
	doc      string // one sentence
	shape    *shape
	required bool
	def      string // as it would be written; "" for none
}

type variant struct {
	value, doc string
	fields     []field
}

// names returns the names of the fields of an object for the variant chosen.
func names(fields []field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	return out
}

func find(fields []field, name string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

// variant returns the further fields for a value of the field by.
func (s *shape) variant(value string) (variant, bool) {
	i := slices.IndexFunc(s.variants, func(v variant) bool { return v.value == value })
	if i < 0 {
		return variant{}, false
	}
	return s.variants[i], true
}

// Patterns of texts in a lab file. Names become parts of file names; what an
// ssh reaches must not look like one of its options.
const (
	nameRule      = "names are [a-z0-9][a-z0-9._-]*, at most 40 characters"
	imagePattern  = `/?[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,254}`
	imageRule     = "write a reference like debian:bookworm"
	ratePattern   = `[0-9]+(\.[0-9]+)? ?([kKMGT]i?)?B(/s)?`
	rateRule      = "write a rate like 50MB/s"
	sshPattern    = `([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9\[][A-Za-z0-9.:\]_-]*`
	sshRule       = "write user@host"
	pathPattern   = `/[A-Za-z0-9._/-]{1,200}`
	pathRule      = "write an absolute path like /data"
	devicePattern = `/dev/[A-Za-z0-9._:/-]{1,200}`
	deviceRule    = "write the path of a block device like /dev/disk/by-id/…"
	linkPattern   = `[A-Za-z0-9][A-Za-z0-9._-]{0,14}`
	linkRule      = "write the name of a network interface like eth1"
	sysctlPattern = `[a-z0-9_][A-Za-z0-9_.:/-]{0,199}`
	sysctlRule    = "write the name of a sysctl like net.core.somaxconn"
)

func one(k param.Kind) *shape { return &shape{kind: single, spec: param.Spec{Kind: k}} }
func enum(values ...string) *shape {
	return &shape{kind: single, spec: param.Spec{Kind: param.Text, Enum: values}}
}
func bounded(k param.Kind, lo, hi float64) *shape {
	return &shape{kind: single, spec: param.Spec{Kind: k, Min: lo, Max: hi}}
}
func text(pattern, rule string) *shape {
	return &shape{kind: single, spec: param.Spec{Kind: param.Text}, pattern: pattern, rule: rule,
		match: regexp.MustCompile(`^(?:` + pattern + `)$`)}
}
func listOf(s *shape) *shape              { return &shape{kind: list, of: s} }
func mapOf(key, value *shape) *shape      { return &shape{kind: dict, key: key, of: value} }
func fieldsOf(fields ...field) *shape     { return &shape{kind: object, fields: fields} }
func (s *shape) eg(example string) *shape { s.example = example; return s }

// lab is the shape of a lab file for a catalogue.
func lab(cat Catalogue) *shape {
	named := func() *shape { return text(name.Pattern, nameRule) }
	volumes := mapOf(text(pathPattern, pathRule), fieldsOf(
		field{name: "backing", doc: "What holds the data: tmpfs (memory), dir (a directory of the host's file system), file:ext4, file:btrfs, file:zfs (a file of the stated size on the host with that file system in it; ZFS is the kernel's OpenZFS, or else zfs-fuse) or disk (a block device).", shape: enum(backings(cat)...), required: true},
		field{name: "size", doc: "Its size; tmpfs and file:… need one.", shape: one(param.Size)},
		field{name: "device", doc: "The block device, for disk. What is on it is lost.", shape: text(devicePattern, deviceRule)},
		field{name: "properties", doc: "Properties of the file system, by name. file:zfs: compression, recordsize, ashift, checksum, logbias, primarycache, sync as in zfsprops(7); file:btrfs: compression (zlib:1…9, lzo, zstd:1…15) and force (true: compress-force).", shape: mapOf(text(`[a-z]{1,20}`, "write the name of a property like compression"), one(param.Text))},
	)).eg(`{/data: {backing: "file:ext4", size: 2GiB}}`)
	resources := []field{
		{name: "cpus", doc: "How many CPUs it may use.", shape: bounded(param.Int, 1, 1024), def: "1"},
		{name: "quota", doc: "How many CPUs' worth of time it may use on them, as 0.5; without it all of their time.", shape: bounded(param.Number, 0.01, 1024)},
		{name: "io", doc: "How fast it may read from and write to the disk that its environment is on, as 50MB/s; what is written to memory first and by the kernel later is held back by control groups of version 2 only.", shape: fieldsOf(
			field{name: "read", doc: "Bytes a second that are read.", shape: text(ratePattern, rateRule)},
			field{name: "write", doc: "Bytes a second that are written.", shape: text(ratePattern, rateRule)},
		).eg("{read: 50MB/s, write: 20MB/s}")},
		{name: "memory", doc: "How much memory it may use, in bytes.", shape: one(param.Size), def: "512MiB"},
		{name: "image", doc: "What its root is made from, for drivers that take an image: debian:SUITE or ubuntu:SUITE, as debian:bookworm or ubuntu:noble, which is built once from the distribution's packages; for the driver jail also the path of a folder on its host.", shape: text(imagePattern, imageRule)},
		{name: "volumes", doc: "Storage, by its path inside. A workload that needs a volume refuses a contender that does not declare it.", shape: volumes},
	}
	contender := fieldsOf(append([]field{
		{name: "name", doc: "Its name in every result.", shape: named(), required: true},
		{name: "driver", doc: "The technology that makes it. The driver's own options stand beside these fields.", shape: drivers(cat), required: true},
		{name: "host", doc: "The machine that it is made on: local, or one of hosts.", shape: named(), def: "local"},
		{name: "system", doc: "The system that its host is switched to for it, one of the host's switch.", shape: named()},
		{name: "tuning", doc: "sysctl name → value, set inside. What a driver takes is in its description (list drivers NAME): net.* where the host's kernel is shared, anything where it boots its own, nothing where the settings are the image's.", shape: mapOf(text(sysctlPattern, sysctlRule), one(param.Text))},
	}, resources...)...)
	contender.by = "driver"
	for _, d := range cat.Drivers {
		contender.variants = append(contender.variants, variant{d.Name, d.Summary, specFields(d.Options)})
	}
	cell := fieldsOf(
		field{name: "name", doc: "Its name in every result.", shape: named(), required: true},
		field{name: "workload", doc: "What is measured.", shape: enum(workloadNames(cat)...), required: true},
	)
	cell.by = "workload"
	for _, w := range cat.Workloads {
		cell.variants = append(cell.variants, variant{w.Name, w.Summary, cellFields(w)})
	}
	design := designShape()
	return fieldsOf(
		field{name: "schema", doc: "The version of this format.", shape: enum(Schema), required: true},
		field{name: "name", doc: "The lab's name; run folders bear it.", shape: named(), required: true},
		field{name: "hosts", doc: "Machines beside this one, by name. local is this machine and is always there; nothing but meter and uplink can be said of it.", shape: mapOf(named(), fieldsOf(
			field{name: "ssh", doc: "Where it is reached; every host but local needs it. Its host key must be known.", shape: text(sshPattern, sshRule)},
			field{name: "port", doc: "Its port, where ssh's own configuration does not say it.", shape: bounded(param.Int, 1, 65535)},
			field{name: "dir", doc: "The folder on it for the agent, images and environments. Without it /var/lib/bakeoff and /var/cache/bakeoff, or the XDG folders of a user who is not root.", shape: text(pathPattern, pathRule)},
			field{name: "repair", doc: "Argument vector that is executed on it before every block, to bring it back to a stated condition.", shape: listOf(one(param.Text))},
			field{name: "meter", doc: "Argument vector that is executed on it right before and right after every trial, outside of what is timed, and prints the reading of an energy meter: one number, in joules. Without it the counters of the processor (RAPL) are read where there are any.", shape: listOf(one(param.Text))},
			field{name: "switch", doc: "System → argument vector: executed on the box, it makes the box boot that system next, from whichever of them is up. Contenders on it say which system they need. Each block boots each system once, in random order, and once more for the baseline's twin.", shape: mapOf(named(), listOf(one(param.Text)))},
			field{name: "reboot", doc: "Argument vector that reboots the box after switch; without it what its system has for that.", shape: listOf(one(param.Text))},
			field{name: "expect", doc: "System → a text that the booted system names itself with (fact os or kernel of its fingerprint); needed where the system's name in switch is not that of a known system.", shape: mapOf(named(), one(param.Text))},
			field{name: "equal_to", doc: "A host, or local, that is declared to be the same hardware. The declaration is held against the fingerprints and stands in the report.", shape: named()},
			field{name: "uplink", doc: "A network interface of it that nothing else uses, without an address, on the same network as the uplink of the generator's host. As long as a run lasts it is a port of the experiment's bridge. For Linux hosts.", shape: text(linkPattern, linkRule)},
		)).eg(`{box: {ssh: root@box.example}}`)},
		field{name: "generator", doc: "The host that load comes from, over the uplinks of both. Without it load comes from the contender's own host, on CPUs that are not the contender's.", shape: named()},
		field{name: "contenders", doc: "What is compared.", shape: listOf(contender), required: true},
		field{name: "baseline", doc: "The contender that the others are compared with. It gets an A/A twin.", shape: named(), required: true},
		field{name: "defaults", doc: "What contenders have that do not say otherwise.", shape: fieldsOf(resources...)},
		field{name: "cells", doc: "What is measured: a workload with one set of its parameters each.", shape: listOf(cell), required: true},
		field{name: "design", doc: "The experiment.", shape: design},
		field{name: "profiles", doc: "Variations of this lab, chosen with --profile.", shape: mapOf(named(), fieldsOf(
			field{name: "design", doc: "What is different in the design.", shape: design},
			field{name: "params", doc: "Parameters for every cell whose workload has them.", shape: mapOf(one(param.Text), loose())},
			field{name: "cells", doc: "Parameters for single cells, by the cell's name; they count before those of params.", shape: mapOf(named(), mapOf(one(param.Text), loose()))},
			field{name: "volumes", doc: "The sizes of volumes, by path, for every contender that declares the volume with a size.", shape: mapOf(text(pathPattern, pathRule), one(param.Size))},
		)).eg(`{ci: {design: {blocks: 2, budget: 60s}, params: {time: 200ms}}}`)},
	)
}

// loose is a value whose type another place decides.
func loose() *shape {
	return &shape{kind: eitherOf, either: []*shape{one(param.Text), listOf(one(param.Text))}}
}

func designShape() *shape {
	return fieldsOf(
		field{name: "margin", doc: "A contender is equivalent when its ratio lies inside [1/(1+margin), 1+margin].", shape: bounded(param.Number, 0.0001, analysis.MaxMargin), def: fmt.Sprint(analysis.DefaultMargin)},
		field{name: "looks", doc: "Numbers of blocks, ascending, at which the run may stop.", shape: listOf(bounded(param.Int, 1, maxBlocks)), def: "[8, 12, 18, 26]"},
		field{name: "alphas", doc: "What is spent at each look; they add up to at most 0.05. Without them 0.05 is shared equally, except for four looks: .010, .010, .015, .015.", shape: listOf(bounded(param.Number, 1e-6, analysis.MaxAlpha))},
		field{name: "instances", doc: "block: environments are made anew for each block, and verdicts speak of this machine. run: one environment serves all blocks, and verdicts speak of that instance only.", shape: enum("block", "run"), def: "block"},
		field{name: "mirror", doc: "Visit the contenders of a block a second time, in mirrored order, so that a linear drift cancels.", shape: one(param.Bool), def: "true"},
		field{name: "budget", doc: "No block is begun that would end later than this. None without it.", shape: one(param.Duration)},
		field{name: "blocks", doc: "At most this many blocks; looks beyond are left out. Below the first look nothing is decided.", shape: bounded(param.Int, 1, maxBlocks)},
	)
}

// Bounds on what one lab may ask for.
const (
	maxBlocks     = 1000
	maxContenders = 64
	maxCells      = 256
	maxLooks      = 32
)

func cellFields(w WorkloadEntry) []field {
	metric := enum(metricNames(w)...)
	metric.also = map[string]string{}
	for _, m := range w.Metrics {
		if m.GeneratorHost {
			metric.also[m.Name] = "another metric: this one is of the load generator's host, and is shown without a verdict"
		}
	}
	either := &shape{kind: eitherOf, either: []*shape{one(param.Bool), listOf(metric)}}
	return []field{
		{name: "params", doc: "The workload's parameters.", shape: fieldsOf(specFields(w.Params)...)},
		{name: "primary", doc: "Metrics that get a verdict: a list, or true for those that the workload names. Everything else is shown with intervals and no verdict.", shape: either, def: "false"},
	}
}

// specFields makes fields of a catalogue's parameters.
func specFields(specs []param.Spec) []field {
	var out []field
	for _, s := range specs {
		f := field{name: s.Name, doc: s.Doc, required: s.Required && s.Default == "", def: s.Default}
		if s.Kind == param.List {
			f.shape = listOf(one(param.Text))
		} else {
			f.shape = &shape{kind: single, spec: s}
		}
		out = append(out, f)
	}
	return out
}

// drivers is the name of a driver; whoever writes that of another program is
// told which driver it is.
func drivers(cat Catalogue) *shape {
	s := enum(driverNames(cat)...)
	s.also = map[string]string{}
	for _, d := range cat.Drivers {
		for name, instead := range d.Also {
			s.also[name] = "driver: " + instead
		}
	}
	return s
}

func driverNames(cat Catalogue) []string {
	var out []string
	for _, d := range cat.Drivers {
		out = append(out, d.Name)
	}
	return out
}

func workloadNames(cat Catalogue) []string {
	var out []string
	for _, w := range cat.Workloads {
		out = append(out, w.Name)
	}
	return out
}

func backings(cat Catalogue) []string {
	var out []string
	for _, d := range cat.Drivers {
		out = append(out, d.Backings...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
