package lint

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
)

const (
	parentArguments = "%{parent}"
	grubDefaults    = "etc/default/grub"   // has the arguments that GRUB gives to the kernel
	kernelCmdline   = "etc/kernel/cmdline" // has those that kernel-install writes
)

// kernelArguments are the arguments of the kernel.
type kernelArguments struct {
	line    string
	where   string    // what to change to add one
	written []written // where they are written, if that is another file
	apply   string    // the command after which a change has an effect, "" if it has one at once
	known   bool
}

// then completes what to change by the command that makes the change effective.
func (a kernelArguments) then(change string) string {
	if a.apply == "" {
		return change + "."
	}
	return change + ", then " + a.apply + "."
}

// written is an argument, and the file that adds it.
type written struct{ argument, file string }

// has reports whether some of the arguments are written in a file, or a property.
func (a kernelArguments) has(file string) bool {
	return a.where == file || slices.ContainsFunc(a.written, func(w written) bool { return w.file == file })
}

// at returns what to change for an argument, which a name without a value means too.
func (a kernelArguments) at(argument string) string {
	for _, w := range slices.Backward(a.written) {
		if name, _, _ := strings.Cut(w.argument, "="); name == argument || w.argument == argument {
			return w.file
		}
	}
	return a.where
}

// setAt returns the dataset from which a dataset has a property of a user, and the property.
func (l *linter) setAt(dataset, prop string) (string, installed.Property) {
	for d := dataset; d != ""; d = installed.Parent(d) {
		p, ok := l.Datasets[d][prop]
		if !ok {
			continue
		}
		if from, inherited := strings.CutPrefix(p.Source, "inherited from "); inherited && strings.HasPrefix(d, from+"/") {
			if v, ok := l.Datasets[from][prop]; ok {
				return from, v
			}
		}
		return d, p
	}
	return "", installed.Property{}
}

// menuArguments returns the arguments that ZFSBootMenu passes to the kernel of a dataset, and
// whether they are known.
func (l *linter) menuArguments(dataset string) (string, bool) {
	at, p := l.setAt(dataset, propCommandLine)
	switch {
	case at == "":
		return "quiet loglevel=4", l.Datasets != nil // the default
	case p.Unknown || !strings.Contains(p.Value, parentArguments):
		return p.Value, !p.Unknown
	}
	above, known := "", true
	if a, _ := l.setAt(installed.Parent(at), propCommandLine); a != "" {
		above, known = l.menuArguments(installed.Parent(at))
	}
	if strings.Count(p.Value, parentArguments)*len(above) > maxText {
		return "", false
	}
	return strings.ReplaceAll(p.Value, parentArguments, above), known
}

// menuWritten returns the arguments that ZFSBootMenu passes to the kernel of a dataset, each with the property that
// has it.
func (l *linter) menuWritten(dataset string) (out []written) {
	at, p := l.setAt(dataset, propCommandLine)
	above := installed.Parent(at)
	for _, word := range kernelWords(p.Value) {
		if !strings.Contains(word, parentArguments) {
			out = append(out, written{word, at + " " + propCommandLine})
		} else if above != "" {
			out = append(out, l.menuWritten(above)...)
			above = "" // those of the next one are the same
		}
	}
	return out
}

// usesGRUB reports whether GRUB is known to start the system.
func (l *linter) usesGRUB() bool {
	return slices.Contains([]string{"grub", "grub2"}, strings.ToLower(l.Bootloader))
}

// kernelArguments returns the arguments of the kernel.
func (l *linter) kernelArguments() kernelArguments {
	switch {
	case l.menu:
		at, _ := l.setAt(l.rootSet, propCommandLine)
		line, known := l.menuArguments(l.rootSet)
		return kernelArguments{line: line, where: cmp.Or(at, l.rootSet) + " " + propCommandLine,
			written: l.menuWritten(l.rootSet), known: known}
	case l.usesGRUB():
		return l.grubArguments()
	case len(l.UKI) > 0:
		if file, line := l.unifiedArguments(); l.exists(file) {
			return kernelArguments{line: line, where: file, apply: l.rebuildUnified(), known: true}
		}
		u := slices.MaxFunc(l.UKI, func(a, b installed.UKI) int { return compareVersions(a.Kernel, b.Kernel) })
		where := cmp.Or(l.dracut().of["kernel_cmdline"], u.Path)
		return kernelArguments{line: u.Cmdline, where: where, apply: l.rebuildUnified(), known: u.Cmdline != ""}
	case l.exists(kernelCmdline):
		// Where nobody knows the loader, GRUB may read its own file.
		known := l.Bootloader != "" || !l.exists(grubDefaults)
		return kernelArguments{line: strings.Join(lines(l.text(kernelCmdline)), " "), where: kernelCmdline,
			apply: "kernel-install add-all", known: known}
	}
	if a := l.entryArguments(); a.known || l.Bootloader != "" {
		return a
	}
	return l.grubArguments()
}

// imageArguments returns the arguments that dracut writes into its images. What is in an image reads them as if the
// kernel had them; the kernel itself does not.
func (l *linter) imageArguments() kernelArguments {
	const name = "kernel_cmdline"
	if l.tool != "dracut" {
		return kernelArguments{known: true}
	}
	c := l.dracut()
	return kernelArguments{line: c.vars[name], where: c.of[name], apply: l.rebuild(), known: l.root != nil}
}

// arguments returns the arguments of the kernel, and where they are written.
func (l *linter) arguments() (string, string) {
	a := l.kernelArguments()
	return a.line, a.where
}

// knowsArguments reports whether the arguments of the kernel are among the facts.
func (l *linter) knowsArguments() bool { return l.kernelArguments().known }

// grubArguments returns the arguments that GRUB gives to the kernel.
func (l *linter) grubArguments() kernelArguments {
	const always, normally = "GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"
	a := kernelArguments{where: grubDefaults, apply: "update-grub", known: l.exists(grubDefaults)}
	vars := map[string]string{}
	for _, f := range append([]string{grubDefaults}, files(l.root, "etc/default/grub.d", ".cfg")...) {
		before := map[string]string{always: vars[always], normally: vars[normally]}
		readAssignments(l.text(f), vars)
		for name, old := range before {
			replaced := !strings.Contains(vars[name], old)
			if replaced {
				a.where = f // an argument before it has no effect
			}
			for _, word := range kernelWords(vars[name]) {
				if replaced || !slices.Contains(kernelWords(old), word) {
					a.written = append(a.written, written{word, f})
				}
			}
		}
	}
	a.line = strings.TrimSpace(vars[always] + " " + vars[normally])
	if entries := l.entryArguments(); vars["GRUB_ENABLE_BLSCFG"] == "true" && entries.known {
		return entries // which replace them
	}
	return a
}

var digits = lazy.Compile(`[0-9]+`)

// entryArguments returns the arguments of the newest entry of systemd-boot, or of GRUB with such entries.
func (l *linter) entryArguments() kernelArguments {
	a := kernelArguments{where: kernelCmdline}
	var newest []int
	for _, folder := range []string{"boot/loader/entries", "boot/efi/loader/entries", "efi/loader/entries"} {
		for _, f := range files(l.root, folder, ".conf") {
			var options []string
			for _, line := range lines(l.text(f)) {
				if key, value, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " "); key == "options" {
					options = append(options, strings.TrimSpace(value))
				}
			}
			var number []int
			for _, d := range digits.FindAllString(f, -1) {
				n, _ := strconv.Atoi(d)
				number = append(number, n)
			}
			if len(options) > 0 && (!a.known || slices.Compare(number, newest) > 0) {
				a, newest = kernelArguments{line: strings.Join(options, " "), where: f, known: true}, number
			}
		}
	}
	return a
}

// repeated are arguments of which each counts, and not only the last one.
var repeated = []string{"console", "rd.luks.name", "rd.luks.options", "rd.luks.uuid", "systemd.mask", "systemd.wants"}

// lost returns the arguments of a line that another one lacks, and to which it gives no other value.
func lost(from, to string) string {
	have := kernelWords(to)
	return strings.Join(slices.DeleteFunc(kernelWords(from), func(a string) bool {
		name, _, valued := strings.Cut(a, "=")
		_, other := argument(to, name)
		return a == parentArguments || slices.Contains(have, a) || valued && other && !slices.Contains(repeated, name)
	}), " ")
}
