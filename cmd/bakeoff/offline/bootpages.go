package offline

import (
	"bytes"
	"fmt"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/judge/profile"
	"bakeoff/lab/bootruns"
	"bakeoff/lab/store"
	"bakeoff/measure/boot/advice"
	"bakeoff/publish/bootpage"
	"bakeoff/publish/report"
)

// bootPages are the pages about the boots of a run whose trials recorded them: where the
// time of each contender goes, and how it differs from the baseline's.
func bootPages(run *store.Run, version string) (out []report.BootPage, err error) {
	all, err := bootruns.Load(run)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all = lists.Filter(all, func(b bootruns.Boot) bool { return b.Recorded })
	for _, cell := range bootruns.Cells(all) {
		of := lists.Filter(all, func(b bootruns.Boot) bool { return b.Cell == cell })
		pages, err := bootPagesOf(run, of, version)
		if err != nil {
			return nil, err
		}
		out = append(out, pages...)
	}
	return out, nil
}

// bootPagesOf are those of one cell.
func bootPagesOf(run *store.Run, all []bootruns.Boot, version string) (out []report.BootPage, err error) {
	of := func(name string) []bootruns.Boot {
		return lists.Filter(all, func(b bootruns.Boot) bool { return b.Contender == name })
	}
	base, _ := lists.Find(all, func(b bootruns.Boot) bool { return b.Baseline })
	for _, name := range bootruns.Contenders(all) {
		mine := of(name)
		r := medianBoot(mine)
		called := fmt.Sprintf("%s, %s on %s", run.Base(), mine[0].Cell, name)
		var text bytes.Buffer
		err := bootpage.Write(&text, bootpage.Boot{Name: called, Recording: r, Advice: advice.Find(r), Version: version})
		if err != nil {
			return nil, err
		}
		out = append(out, report.BootPage{Name: mine[0].Cell + " " + name, Title: mine[0].Cell + " on " + name,
			About: "Where the time of a boot went: of the boot that took the median time until it was ready.",
			Text:  text.Bytes()})
		if base.Contender == "" || name == base.Contender {
			continue
		}
		page, err := differencePage(base.Contender, name, of(base.Contender), mine, version)
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
	}
	return out, nil
}

// differencePage compares the boots of two contenders; it is empty if they cannot be
// compared, as on different clocks.
func differencePage(a, b string, from, to []bootruns.Boot, version string) ([]report.BootPage, error) {
	recordings := func(all []bootruns.Boot) []bootmodel.Recording {
		return lists.Map(all, func(x bootruns.Boot) bootmodel.Recording { return x.Recording })
	}
	order := profile.Paired
	if len(from) != len(to) {
		order = profile.Apart
	}
	s := bootpage.Sides{A: a, B: b, Version: version}
	var err error
	s.Comparison, err = profile.Compare(recordings(from), recordings(to), order)
	if fault.Is(err, fault.Invalid) {
		return nil, nil
	}
	var text bytes.Buffer
	if err == nil {
		err = bootpage.WriteCompare(&text, s)
	}
	cell := to[0].Cell
	return []report.BootPage{{Name: cell + " " + b + " against " + a, Title: cell + " on " + b + " against " + a,
		About: "Which parts of a boot take longer or shorter than the baseline’s.", Text: text.Bytes()}}, err
}
