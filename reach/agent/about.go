package agent

import (
	"runtime/debug"
	"slices"
	"strings"

	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// Self describes this program as an agent with these loops.
func Self(loops []loop.Loop) wire.About {
	a := wire.About{Protocol: wire.Protocol, Commands: []string{}, Loops: []string{}}
	if info, ok := debug.ReadBuildInfo(); ok {
		a.Build = BuildOf(info)
	}
	for _, c := range commands() {
		a.Commands = append(a.Commands, c.name)
	}
	for _, l := range loops {
		words := []string{l.Name}
		for _, p := range l.Params {
			words = append(words, p.Name+"="+p.Default)
		}
		a.Loops = append(a.Loops, strings.Join(words, " "))
	}
	slices.Sort(a.Commands)
	slices.Sort(a.Loops)
	return a
}

// BuildOf returns the commit that a program was built from, "4f5a6b7c8d9e",
// with "-modified" if the sources were changed; "" if it was built outside of a
// repository.
func BuildOf(info *debug.BuildInfo) string {
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + modified
}
