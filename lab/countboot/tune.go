package countboot

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
)

// Knob is a setting that may make a boot shorter.
type Knob struct {
	Name string `json:"name"`
	// Why says what the setting leaves out, and Costs what is lost by it; "" is nothing.
	Why   string `json:"why"`
	Costs string `json:"costs,omitempty"`
	// Evidence is what a boot with initcall_debug shows of it; "" is nothing.
	Evidence string `json:"evidence,omitempty"`
	// Append are words for the kernel's command line, Options those of the driver qemu.
	Append  []string     `json:"append,omitempty"`
	Options param.Values `json:"options,omitempty"`
	// UnpackInitrd replaces the RAM disk by the same without compression.
	UnpackInitrd bool `json:"unpack_initrd,omitempty"`
}

// Knobs are the settings that Tune tries, for guests with Linux on amd64.
//
// Source: Linux Documentation/admin-guide/kernel-parameters.txt; the command line that
// Firecracker gives its guests.
var Knobs = []Knob{
	{Name: "cryptomgr.notests", Why: "the self-tests of cryptographic algorithms at registration",
		Costs: "a broken implementation of an algorithm is not noticed", Append: []string{"cryptomgr.notests"}},
	{Name: "PVH", Why: "unpacking the kernel: QEMU starts the ELF kernel by its PVH entry",
		Options: param.Values{"kernel-form": "elf"}},
	{Name: "quiet", Why: "messages on the serial line",
		Costs:  "the console shows errors only; dmesg still has all messages",
		Append: []string{"quiet", "loglevel=2"}},
	{Name: "tsc", Why: "calibrating the time-stamp counter and the delay loop, whose frequencies are given",
		Costs:  "the frequency must be that of the machine: on another clock than this one write its own",
		Append: []string{"tsc_early_khz=1000000", "lpj=4000000"}},
	{Name: "no PCI", Why: "searching for a PCI bus, which a microvm does not have", Costs: "devices on PCI are not found",
		Append: []string{"pci=off"}},
	{Name: "one serial line", Why: "searching for serial lines other than the first", Costs: "only ttyS0 exists",
		Append: []string{"8250.nr_uarts=1"}},
	{Name: "no ACPI", Why: "the interpreter and the tables of ACPI",
		Costs: "a kernel without command-line devices finds no virtio device", Append: []string{"acpi=off"},
		Options: param.Values{"acpi": "off"}},
	{Name: "initramfs without compression", Why: "unpacking the initial RAM disk", Costs: "a larger file",
		UnpackInitrd: true},
	{Name: "microvm", Why: "the devices and the firmware of a PC", Costs: "no PCI, and virtio devices only",
		Options: param.Values{"machine": "microvm", "firmware": "auto"}},
}

// Trial is a boot with a knob, or with several.
type Trial struct {
	Knob
	// Instructions are those of the boot; null if it failed, and Error says why.
	Instructions *int64 `json:"instructions"`
	// Saved is how many fewer they are than without the knob: alone, or, of the chosen
	// set, all others being set.
	Saved *int64 `json:"saved"`
	Error string `json:"error,omitempty"`
}

// Tuning is the result of Tune. Boots are deterministic: the base was booted twice, and
// so was the chosen set.
type Tuning struct {
	Schema string `json:"schema"`
	// End says where the boot ends.
	End  string `json:"end"`
	Base int64  `json:"base"` // instructions without any knob
	// Alone has each knob on its own, Chosen the smallest set with what each saves in it,
	// the most first.
	Alone  []Trial `json:"alone"`
	Chosen []Trial `json:"chosen"`
	Tuned  int64   `json:"tuned"` // instructions with the chosen set
	Ratio  float64 `json:"ratio"` // Tuned / Base
	Boots  int     `json:"boots"`
}

// TuningSchema is that of Tuning.
const TuningSchema = "bakeoff/boot-tune/v1"

// Tuner searches for the settings that make a boot shorter.
type Tuner struct {
	Boot func(ctx context.Context, g Guest) (Boot, error)
	// Least is the share of the base that a knob must save to be chosen.
	Least float64
	// Unpacked is a file with the RAM disk of the guest without compression; "" if it has
	// none, or none that is compressed.
	Unpacked string
	// Tell hears what was booted; nil is nobody.
	Tell func(what string, b Boot)
}

// Tune boots g as it is, with each knob alone, and with sets of them. What the messages of
// a boot advise is tried, too (package measure/boot/advice). It begins with all
// that save something and removes each that saves less than Least while the others are
// set.
func (t Tuner) Tune(ctx context.Context, g Guest, knobs []Knob) (out Tuning, err error) {
	out.Schema, out.Alone, out.Chosen = TuningSchema, []Trial{}, []Trial{}
	base, err := t.twice(ctx, g, "as it is", &out)
	if err != nil {
		return out, err
	}
	out.Base, out.End = base.Instructions(), Describe(base.Counts)
	seen, err := t.one(ctx, g, []Knob{{Append: SpanWords}}, "with initcall_debug, for evidence", &out)
	switch {
	case err == nil:
		knobs = withEvidence(knobs, seen)
	case !fault.Is(err, fault.Subject): // a guest that does not boot with it gives none
		return out, err
	}
	saves := map[string]int64{}
	var set []Knob
	for _, k := range knobs {
		if !t.applies(k, g) {
			continue
		}
		trial := Trial{Knob: k}
		b, err := t.one(ctx, g, []Knob{k}, k.Name, &out)
		if err := trial.note(ctx, b, err, out.Base); err != nil {
			return out, err
		}
		if out.Alone = append(out.Alone, trial); trial.Saved != nil && *trial.Saved > 0 {
			set = append(set, k)
			saves[k.Name] = *trial.Saved
		}
	}
	slices.SortStableFunc(set, func(a, b Knob) int { return cmp.Compare(saves[a.Name], saves[b.Name]) })
	if err := t.reduce(ctx, g, set, &out); err != nil {
		return out, err
	}
	last, err := t.twice(ctx, t.with(g, chosen(out)), "with the chosen set", &out)
	if err != nil {
		return out, err
	}
	out.Tuned = last.Instructions()
	out.Ratio = float64(out.Tuned) / float64(out.Base)
	return out, nil
}

func chosen(t Tuning) (set []Knob) {
	return lists.Map(t.Chosen, func(c Trial) Knob { return c.Knob })
}

// reduce removes the knobs of a set that save less than Least in it, beginning with the
// one that saves least alone, and then measures what each of the others saves in what is
// left.
func (t Tuner) reduce(ctx context.Context, g Guest, set []Knob, out *Tuning) error {
	known := map[string]int64{} // instructions by the names of the set
	cost := func(set []Knob, what string) (int64, error) {
		key := names(set)
		if n, ok := known[key]; ok {
			return n, nil
		}
		b, err := t.one(ctx, g, set, what, out)
		if err != nil {
			return 0, fault.Op(what, err)
		}
		known[key] = b.Instructions()
		return known[key], nil
	}
	now, err := cost(set, "all together")
	if err != nil {
		return err
	}
	without := func(k Knob) []Knob {
		return slices.DeleteFunc(slices.Clone(set), func(o Knob) bool { return o.Name == k.Name })
	}
	for _, k := range slices.Clone(set) {
		n, err := cost(without(k), "all without "+k.Name)
		if err != nil {
			return err
		}
		if float64(n-now) < t.Least*float64(out.Base) {
			set, now = without(k), n
		}
	}
	for _, k := range set {
		n, err := cost(without(k), "the set without "+k.Name)
		if err != nil {
			return err
		}
		out.Chosen = append(out.Chosen, Trial{Knob: k, Instructions: &n, Saved: new(n - now)})
	}
	slices.SortStableFunc(out.Chosen, func(a, b Trial) int { return cmp.Compare(*b.Saved, *a.Saved) })
	return nil
}

// names identifies a set of knobs.
func names(set []Knob) (text string) {
	for _, k := range set {
		text += k.Name + "\n"
	}
	return text
}

// note keeps the result of a boot. A guest that does not boot with a knob is not an error.
func (t *Trial) note(ctx context.Context, b Boot, err error, base int64) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case fault.Is(err, fault.Lab):
		return err
	case err != nil:
		t.Error = err.Error()
		return nil
	}
	n := b.Instructions()
	t.Instructions, t.Saved = &n, new(base-n)
	return nil
}

// one boots g with knobs.
func (t Tuner) one(ctx context.Context, g Guest, set []Knob, what string, out *Tuning) (Boot, error) {
	b, err := t.Boot(ctx, t.with(g, set))
	if err != nil {
		return b, err
	}
	out.Boots++
	if t.Tell != nil {
		t.Tell(what, b)
	}
	return b, nil
}

// twice boots g two times and refuses boots that differ.
func (t Tuner) twice(ctx context.Context, g Guest, what string, out *Tuning) (Boot, error) {
	first, err := t.one(ctx, g, nil, what, out)
	if err != nil {
		return first, err
	}
	second, err := t.one(ctx, g, nil, what+", again", out)
	if err == nil {
		err = same(first, second)
	}
	return second, err
}

// applies tells whether a knob can change something of a guest.
func (t Tuner) applies(k Knob, g Guest) bool {
	if k.UnpackInitrd && t.Unpacked == "" {
		return false
	}
	for name, value := range k.Options {
		if name == "machine" && cmp.Or(g.Options[name], "microvm") == value {
			return false
		}
	}
	return true
}

// with is g with knobs.
func (t Tuner) with(g Guest, set []Knob) Guest {
	g.Append, g.Options = slices.Clone(g.Append), maps.Clone(g.Options)
	if g.Options == nil {
		g.Options = param.Values{}
	}
	for _, k := range set {
		g.Append = append(g.Append, k.Append...)
		maps.Copy(g.Options, k.Options)
		if k.UnpackInitrd {
			g.Initrd = t.Unpacked
		}
	}
	return g
}
