package manifest

import (
	"fmt"
	"slices"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
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
	lines         bool // a text may have several lines
	share         bool // a number may be written in percent
	match         *lazy.Regexp
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
	byImage  bool // required where the image does not name a program
	// elsewhere means that another place of the file may give a required value:
	// only the resolver knows whether it is absent.
	elsewhere bool
	def       string // as it would be written; "" for none
}

type variant struct {
	value, doc string
	fields     []field
}

// names returns the names of the fields of an object for the variant chosen.
func names(fields []field) []string {
	return lists.Map(fields, func(f field) string { return f.name })
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

// Patterns of texts in a lab file, with what to write. The address of a host
// must not look like an option of ssh.
const (
	nameRule = "use lower-case letters (a to z), digits, points, underscores and hyphens, with a letter or " +
		"a digit first, and at most 40 characters"
	imagePattern  = `/?[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,254}`
	imageRule     = "write an image like debian:bookworm"
	ratePattern   = `[0-9]+(\.[0-9]+)? ?([kKmMgGtT]i?)?B(/s)?`
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
	envPattern    = `[A-Za-z_][A-Za-z0-9_]{0,99}`
	envRule       = "write the name of an environment variable like LANG"
	// packagePattern matches names of Debian packages: Debian Policy, 5.6.1.
	packagePattern = `[a-z0-9][a-z0-9+.-]{1,80}`
	packageRule    = "write the name of a Debian package like python3"
)

// otherFileSystem is the remedy for a file system that bakeoff does not create.
const otherFileSystem = "backing: disk, device: /dev/… (a block device on which you created that file " +
	"system with the label bakeoff)"

func one(k param.Kind) *shape { return &shape{kind: single, spec: param.Spec{Kind: k}} }
func lines() *shape           { s := one(param.Text); s.lines = true; return s }
func enum(values ...string) *shape {
	return &shape{kind: single, spec: param.Spec{Kind: param.Text, Enum: values}}
}
func bounded(k param.Kind, lo, hi float64) *shape {
	return &shape{kind: single, spec: param.Spec{Kind: k, Min: lo, Max: hi}}
}
func share(lo, hi float64) *shape {
	s := bounded(param.Number, lo, hi)
	s.share = true
	return s
}
func text(pattern, rule string) *shape {
	return &shape{kind: single, spec: param.Spec{Kind: param.Text}, pattern: pattern, rule: rule,
		match: lazy.Compile(`^(?:` + pattern + `)$`)}
}
func listOf(s *shape) *shape              { return &shape{kind: list, of: s} }
func mapOf(key, value *shape) *shape      { return &shape{kind: dict, key: key, of: value} }
func fieldsOf(fields ...field) *shape     { return &shape{kind: object, fields: fields} }
func (s *shape) eg(example string) *shape { s.example = example; return s }

// lab returns the shape of a lab file for a catalogue.
func lab(cat Catalogue) *shape {
	resources := resourceFields(cat)
	design := designShape()
	return fieldsOf(
		field{name: "schema", doc: "Version of this format.", shape: enum(Schema), required: true},
		field{name: "name", doc: "Name of the lab; the names of run folders contain this " +
			"name.", shape: named(), required: true},
		field{name: "hosts", doc: "Other machines, by name. `local` is this machine and always exists; only `meter`, " +
			"`uplink` and `address` may be set for it.",
			shape: mapOf(named(), hostShape()).eg(`{box: {ssh: root@box.example}}`)},
		field{name: "generator",
			doc: "Name of the host that generates load. The load goes over the uplinks of both hosts or, for " +
				"contenders with driver: machine, over the machine's own network. Without this key, load comes from " +
				"the contender's own host, on CPUs that are not the contender's.",
			shape: named()},
		field{name: "contenders", doc: "The sides of the comparison, such as two containers or a container and a " +
			"virtual machine.", shape: listOf(contenderShape(cat, resources)),
			required: true},
		field{name: "baseline", doc: "Name of the contender that the others are compared with. bakeoff adds its A/A " +
			"twin, a second, equal contender, to show how much equal contenders differ.",
			shape: named(), required: true},
		field{name: "defaults", doc: "Values for contenders that do not set these keys " +
			"themselves.", shape: fieldsOf(resources...)},
		field{name: "cells", doc: "What is measured: each cell is a workload with one set of parameters.",
			shape: listOf(cellShape(cat)), required: true},
		filesField("the environments of all contenders"),
		field{name: "design", doc: "Design of the experiment.", shape: design},
		field{name: "profiles", doc: "Variations of this lab; `--profile` selects one.", shape: mapOf(named(), fieldsOf(
			field{name: "design", doc: "Changes to the design.", shape: design},
			field{name: "params", doc: "Parameters for every cell whose workload has these parameters.",
				shape: mapOf(one(param.Text), loose())},
			field{name: "cells", doc: "Parameters for single cells, by the name of the cell. These parameters " +
				"override the key params of the profile.",
				shape: mapOf(named(), mapOf(one(param.Text), loose()))},
			field{name: "volumes", doc: "Sizes of volumes, by the volume's path, for every contender that declares " +
				"this volume with a size.",
				shape: mapOf(text(pathPattern, pathRule), one(param.Size))},
		)).eg(`{ci: {design: {blocks: 2, budget: 60s}, params: {time: 200ms}}}`)},
	)
}

func named() *shape { return text(name.Pattern, nameRule) }

func hostShape() *shape {
	argv := func() *shape { return listOf(one(param.Text)) }
	return fieldsOf(
		field{name: "pool", doc: "Pool of hosts of a cluster, instead of the address of one host: `bakeoff run --on " +
			"slurm` chooses a host of the pool.", shape: named()},
		field{name: "count", doc: "Number of hosts of the pool on which the lab runs, each with its own run folder.",
			shape: bounded(param.Int, 1, 1000), def: "1"},
		field{name: "ssh", doc: "Address for ssh, as in user@host. Every host except local needs ssh or pool. The " +
			"SSH host key of the host must be known.",
			shape: text(sshPattern, sshRule)},
		field{name: "port", doc: "Port for ssh, if ssh's own configuration does not set it.",
			shape: bounded(param.Int, 1, 65535)},
		field{name: "dir", doc: "Folder on the host for the agent, images and environments. Without this key, " +
			"bakeoff uses /var/lib/bakeoff and /var/cache/bakeoff or, for a user other than root, the user's XDG " +
			"folders.", shape: text(pathPattern, pathRule)},
		field{name: "repair", doc: "Command, as a list of the program and its arguments, that bakeoff executes on " +
			"the host before every block, to restore a known state.", shape: argv()},
		field{name: "meter", doc: "Command, as a list of the program and its arguments, that prints the reading of " +
			"an energy meter: one number, in joules. bakeoff executes the command on the host right before and " +
			"right after every trial, outside of the timed part. Without this key, bakeoff reads the processor's " +
			"energy counters (RAPL), if the processor has them.", shape: argv()},
		field{name: "switch", doc: "Commands, by the name of an operating system of the host. Each command is a " +
			"list of a program and its arguments, and makes the host boot that system next. The command must work " +
			"in every system of the host. A contender selects its system with the key `system`. Each block boots " +
			"each system once, in random order, and the baseline's system a second time, for the A/A twin.",
			shape: mapOf(named(), argv())},
		field{name: "reboot", doc: "Command, as a list of the program and its arguments, that reboots the host " +
			"after the command of the key switch. Without this key, bakeoff uses the reboot command of the running " +
			"system.", shape: argv()},
		field{name: "expect", doc: "For each operating system in switch, by name: a text that identifies this " +
			"system after a boot. The text is a part of the fact `os` or `kernel` in the host's fingerprint. " +
			"Required unless the name is that of a system that bakeoff knows, such as freebsd.",
			shape: mapOf(named(), one(param.Text))},
		field{name: "equal_to",
			doc: "Another host that you declare to have the same hardware: its name, or local. bakeoff checks your " +
				"declaration against the fingerprints of both hosts, and shows it on the page of the " +
				"run.", shape: named()},
		field{name: "address", doc: "IP address at which the load generator reaches this host, for contenders with " +
			"driver: machine. Without this key, bakeoff uses the address that ssh connects " +
			"to.", shape: one(param.Text)},
		field{name: "uplink", doc: "Name of an unused network interface of the host, without an IP address, on the " +
			"same network as the uplink of the generator's host. During a run, bakeoff adds this interface to the " +
			"bridge of the experiment. Linux only.", shape: text(linkPattern, linkRule)},
	)
}

// resourceFields are the fields that contenders and defaults share.
func resourceFields(cat Catalogue) []field {
	backing := enum(backings(cat)...)
	backing.also = map[string]string{"xfs": "file:xfs", "ext3": "file:ext3", "file:f2fs": otherFileSystem}
	volumes := mapOf(text(pathPattern, pathRule), fieldsOf(
		field{name: "backing",
			doc: "What holds the data. tmpfs: memory. dir: a directory in the host's file system. file:ext3, " +
				"file:ext4, file:xfs, file:btrfs, file:zfs: a file on the host that contains this file system; ZFS " +
				"is the kernel's OpenZFS or, without it, zfs-fuse. disk: a block device. dataset, zvol: a new " +
				"dataset or zvol of the kernel's OpenZFS, below the dataset of the key pool. nfs: an NFS server " +
				"that bakeoff starts on the host, reached over the experiment's network. file:ffs: a disk that a " +
				"guest of bhyve or vmm formats. A virtual machine gets the volume as a disk: the file or the " +
				"device, or with dataset and file:zfs a raw file in the file system; with file:zfs, that raw file " +
				"has three quarters of the size.",
			shape: backing, required: true},
		field{name: "size", doc: "Size of the volume; required for all backings except dir and disk.",
			shape: one(param.Size)},
		field{name: "device", doc: "Path of the block device, with backing: disk. The device must have a file " +
			"system with the label bakeoff (mkfs.ext4 -L bakeoff), which bakeoff mounts without formatting it; a " +
			"virtual machine mounts ext4 only. The data on the device are lost.",
			shape: text(devicePattern, deviceRule)},
		field{name: "pool", doc: "Name of an existing dataset of the host, with backing: dataset or zvol. bakeoff " +
			"creates a dataset or zvol for the volume below this dataset, and later destroys it.",
			shape: text(`[A-Za-z][A-Za-z0-9_.:/-]{0,200}`, "write the name of a dataset like tank/vm")},
		field{name: "properties",
			doc: "Properties of the file system, by name. file:zfs and dataset: compression, recordsize, checksum, " +
				"logbias, primarycache and sync, as in zfsprops(7). file:zfs also: ashift. zvol: the same as " +
				"dataset, with volblocksize instead of recordsize. file:btrfs: compression (zlib:1…9, lzo, " +
				"zstd:1…15) and force (true: compress-force). nfs: version (4.1 or 4.2).",
			shape: mapOf(text(`[a-z]{1,20}`, "write the name of a property like compression"), one(param.Text))},
	)).eg(`{/data: {backing: "file:ext4", size: 2GiB}}`)
	return []field{
		{name: "cpus", doc: "Number of CPUs that the contender may use.", shape: bounded(param.Int, 1, 1024), def: "1"},
		{name: "quota", doc: "Limit of the contender's CPU time, in CPUs: 0.5 is half of the time of one CPU. " +
			"Without this key, CPU time is not limited.",
			shape: bounded(param.Number, 0.01, 1024)},
		{name: "io", doc: "Limits on reading from and writing to the disk that holds the environment, as in 50MB/s. " +
			"With version 1 of control groups, data that the kernel buffers and writes later are not " +
			"limited.", shape: fieldsOf(
			field{name: "read", doc: "Most bytes that the contender may read per " +
				"second.", shape: text(ratePattern, rateRule)},
			field{name: "write", doc: "Most bytes that the contender may write per " +
				"second.", shape: text(ratePattern, rateRule)},
		).eg("{read: 50MB/s, write: 20MB/s}")},
		{name: "memory", doc: "Memory that the contender may use.", shape: one(param.Size), def: "512MiB"},
		{name: "image", doc: "Image of the root file system, for drivers that use an image. debian:SUITE or " +
			"ubuntu:SUITE, such as debian:bookworm or ubuntu:noble: bakeoff builds this image once from the " +
			"packages of the distribution. NAME:TAG or NAME@DIGEST: an image of a registry, such as alpine:3.20 or " +
			"docker.io/library/debian:bookworm. On this machine: oci:DIR[:TAG], oci-archive:FILE[:TAG], " +
			"docker-archive:FILE, rootfs:DIR or rootfs:FILE (a tar file, plain or compressed with gzip, xz or " +
			"zstd). disk:FILE: the raw or qcow2 disk of a machine, for drivers that boot machines. With driver: " +
			"jail, also the path of a folder on the contender's host.",
			shape: text(imagePattern, imageRule)},
		{name: "packages", doc: "Packages that the environments contain in addition to those of the workloads, by " +
			"their names in Debian or Ubuntu. bakeoff installs these packages when it builds the image of a " +
			"distribution. With driver: host, you must install them on the host. If the packages of the contender " +
			"and of the baseline differ, the page of the run lists them as a factor (an intended difference).",
			shape: listOf(text(packagePattern, packageRule)).eg("[python3]")},
		{name: "volumes", doc: "Storage volumes, by their path inside the environment. If a workload needs a " +
			"volume, every contender must declare that volume.",
			shape: volumes},
	}
}

func contenderShape(cat Catalogue, resources []field) *shape {
	contender := fieldsOf(append([]field{
		{name: "name", doc: "Name of the contender in all results.", shape: named(), required: true},
		{name: "driver", doc: "Driver that creates the environments. The options of the driver are further keys of the " +
			"contender.",
			shape: drivers(cat), required: true},
		{name: "host", doc: "Host on which bakeoff creates the environments: local, or a name from the key " +
			"hosts.", shape: named(), def: "local"},
		{name: "system", doc: "Operating system that the host must boot for this contender: a name from the key " +
			"switch of the host.",
			shape: named()},
		{name: "tuning", doc: "Kernel settings (sysctl name → value) that bakeoff sets inside the environment. " +
			"`bakeoff list drivers NAME` shows the settings that a driver supports: net.* if environments share the " +
			"host's kernel, all settings if environments boot a kernel of their own, and none if the settings " +
			"belong to the image.",
			shape: mapOf(text(sysctlPattern, sysctlRule), one(param.Text))},
		{name: "params", doc: "Parameters of the cell's workload, by the name of the cell. For this contender, " +
			"these values override the parameters that the cell itself sets. With this key, contenders with the " +
			"same driver can run different commands, servers or settings. If every contender sets a required " +
			"parameter, the cell need not set it.",
			shape: mapOf(named(), mapOf(one(param.Text), loose())).eg(`{unpack: {argv: [tar, -xf, big.tar]}}`)},
		{name: "env", doc: "Environment variables of the programs that workloads run in the contender's environments. A " +
			"variable that the workload itself sets keeps the workload's value.",
			shape: mapOf(text(envPattern, envRule), one(param.Text)).eg(`{LANG: C.UTF-8}`)},
		{name: "sweep", doc: "A name and its values: a list, or {from: 1, to: 9, step: 2}. Each value makes one " +
			"contender, called CONTENDER-NAME-VALUE, and the page of the run shows a curve over the values. The " +
			"value replaces {NAME} in env, in packages, in tuning, in the contender's own volumes and in the " +
			"parameters of cells. If NAME is cpus, quota, memory, image, an option of the driver, or a parameter of " +
			"a cell's workload, bakeoff sets NAME to the value. If the key baseline names the swept contender, the " +
			"baseline is the contender with the first value.",
			shape: sweepShape()},
		filesField("the environments of this contender. A file of a contender replaces a file of the lab or of a " +
			"cell with the same path `to`"),
	}, resources...)...)
	contender.by = "driver"
	for _, d := range cat.Drivers {
		contender.variants = append(contender.variants, variant{d.Name, d.Summary, specFields(d.Options)})
	}
	return contender
}

func cellShape(cat Catalogue) *shape {
	cell := fieldsOf(
		field{name: "name", doc: "Name of the cell in all results.", shape: named(), required: true},
		field{name: "workload", doc: "Workload to run.", shape: enum(workloadNames(cat)...), required: true},
		field{name: "profiles", doc: "Profiles whose runs contain the cell. Without this key, every run contains " +
			"the cell. With this key, a run without --profile does not contain the cell, unless --only names the " +
			"cell.",
			shape: listOf(named()).eg("[full]")},
		field{name: "sweep", doc: "A sweep (see the key sweep of a contender) that applies to every contender in " +
			"this cell.",
			shape: sweepShape()},
		filesField("the environments of all contenders, if the cell is measured"),
	)
	cell.by = "workload"
	for _, w := range cat.Workloads {
		cell.variants = append(cell.variants, variant{w.Name, w.Summary, cellFields(w)})
	}
	return cell
}

// loose is a value whose type is checked elsewhere.
func loose() *shape {
	return &shape{kind: eitherOf, either: []*shape{one(param.Text), listOf(lines())}}
}

func designShape() *shape {
	return fieldsOf(
		field{name: "margin", doc: "Margin of equivalence, as in 0.02 or 2%. A contender is equivalent to the " +
			"baseline if the confidence interval of their ratio lies inside [1/(1+margin), 1+margin].",
			shape: share(0.0001, analysis.MaxMargin), def: fmt.Sprint(analysis.DefaultMargin)},
		field{name: "looks", doc: "Ascending numbers of blocks after each of which bakeoff makes a look (an interim " +
			"analysis), and may decide and stop the run. If the file has a budget and neither looks, alphas nor " +
			"blocks, bakeoff derives the looks from the budget.",
			shape: listOf(bounded(param.Int, 1, maxBlocks)), def: "[8, 12, 18, 26]"},
		field{name: "alphas", doc: "Error rate of each look (interim analysis); the sum is at most 0.05. Without " +
			"this key, every look gets an equal share of 0.05; four looks get .010, .010, .015, " +
			".015.", shape: listOf(share(1e-6, analysis.MaxAlpha))},
		field{name: "instances",
			doc: "block: bakeoff creates new environments for each block, and verdicts hold for environments made this way on " +
				"this " +
				"machine. run: one environment serves all blocks, and verdicts hold for that instance only.", shape: enum("block",
				"run"), def: "block"},
		field{name: "mirror", doc: "Whether each block measures the contenders a second time in the reverse order, " +
			"so that a linear drift cancels out.",
			shape: one(param.Bool), def: "true"},
		field{name: "budget", doc: "Time limit of the run. bakeoff starts no block that would exceed it. Without " +
			"this key, the time is not limited.",
			shape: one(param.Duration)},
		field{name: "blocks", doc: "Maximum number of blocks of a run; bakeoff ignores looks at more blocks. If the " +
			"maximum is below the first look, no verdict is possible.",
			shape: bounded(param.Int, 1, maxBlocks)},
		field{name: "exact-trials", doc: "For metrics that can repeat themselves exactly, such as instructions: " +
			"number of trials of each side that must agree. If these trials agree, bakeoff calls the metric " +
			"deterministic, and gives the verdict without waiting for a look. With mirror, a block has two trials " +
			"of each side.",
			shape: bounded(param.Int, analysis.Repeats, 2*maxBlocks), def: fmt.Sprint(analysis.Repeats)},
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
			metric.also[m.Name] = "another metric: this one describes the host of the load generator and gets no verdict"
		}
	}
	either := &shape{kind: eitherOf, either: []*shape{one(param.Bool), listOf(metric)}}
	params := specFields(w.Params)
	for i := range params {
		params[i].elsewhere = true
	}
	return []field{
		{name: "params", doc: "Parameters of the workload.", shape: fieldsOf(params...)},
		{name: "primary", doc: "Metrics that get a verdict: a list, or true for the defaults of the workload. All other " +
			"metrics are shown with " +
			"intervals and without a verdict.", shape: either, def: "false"},
	}
}

// specFields makes fields of a catalogue's parameters.
func specFields(specs []param.Spec) []field {
	var out []field
	for _, s := range specs {
		f := field{name: s.Name, doc: s.Doc, required: s.Required && s.Default == "", byImage: s.ByImage, def: s.Default}
		if s.Kind == param.List {
			f.shape = listOf(lines())
		} else {
			f.shape = &shape{kind: single, spec: s}
		}
		out = append(out, f)
	}
	return out
}

// drivers is the name of a driver. For the name of another program, the error
// says which driver to use.
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
	return lists.Map(cat.Drivers, func(d DriverEntry) string { return d.Name })
}

func workloadNames(cat Catalogue) []string {
	return lists.Map(cat.Workloads, func(w WorkloadEntry) string { return w.Name })
}

func backings(cat Catalogue) []string {
	var out []string
	for _, d := range cat.Drivers {
		out = append(out, d.Backings...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
