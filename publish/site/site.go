// Package site builds a web site of posts and runs from a folder that has BSSG's layout:
// src/, pages/, drafts/, static/ and plain assignments in config.sh.local. The result is
// plain files in output/.
//
// The content may be a stranger's. Everything is read and written through os.Root, so no
// link leads out of the site; text is made harmless where it is read and escaped where it
// is shown; every page has a strict Content-Security-Policy.
//
// A build makes only what changed: each output file has a digest of what it is made of
// (package output). The same content gives the same bytes.
package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"bakeoff/base/fault"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
	"bakeoff/publish/site/config"
	"bakeoff/publish/site/output"
	"bakeoff/publish/site/page"
	"bakeoff/publish/site/theme"
)

// engineVersion is part of every key. Change it when the same inputs give other files.
const engineVersion = "1"

// Site is an open site.
type Site struct {
	Dir      string
	Config   config.Config
	Warnings []string // of the settings
	root     *os.Root
}

// Open opens the site in dir. A folder that does not exist is an error of kind
// fault.NotFound, wrong settings are of kind fault.Invalid.
func Open(dir string) (*Site, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, dir, err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fault.WithFix(fault.Wrap(fault.NotFound, "the folder of the site cannot be opened", err),
			"name another folder, or make a site: bakeoff site init "+dir)
	}
	s := &Site{Dir: dir, root: root}
	text, err := readBounded(root, config.File, config.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Config = config.Default()
		s.Config.Languages = []string{s.Config.Language}
	case err != nil:
		root.Close()
		return nil, err
	default:
		if s.Config, s.Warnings, err = config.Parse(text, filepath.ToSlash(abs)); err != nil {
			root.Close()
			return nil, err
		}
	}
	return s, nil
}

// Close closes the site.
func (s *Site) Close() error { return s.root.Close() }

// Root is the site's folder.
func (s *Site) Root() *os.Root { return s.root }

// Option is how a site is built.
type Option struct {
	Force   bool          // make every file again
	Drafts  bool          // publish drafts too, for a preview
	Future  bool          // publish posts that are dated after Now
	Now     time.Time     // decides which posts are published
	Program string        // identifies the program that builds
	Output  string        // folder to write to instead of that of the settings; may lie outside of the site
	Theme   string        // instead of that of the settings
	Report  report.Option // of the pages of runs
}

// Result says what a build did.
type Result struct {
	Output    string `json:"output"`
	Posts     int    `json:"posts"`
	Pages     int    `json:"pages"`
	Runs      int    `json:"runs"`      // of the index
	Scheduled int    `json:"scheduled"` // posts that are dated in the future
	Expired   int    `json:"expired"`   // posts and pages whose expirydate is over
	// Next is when another build would publish or remove something; zero: never.
	Next     time.Time    `json:"next,omitzero"`
	Files    output.Count `json:"files"`
	Theme    string       `json:"theme"`
	Warnings []string     `json:"warnings"`
}

// Build builds the site.
func (s *Site) Build(opt Option) (Result, error) {
	if opt.Now.IsZero() {
		opt.Now = time.Now()
	}
	b := &build{site: s, opt: opt, cfg: s.Config, result: Result{Warnings: append([]string{}, s.Warnings...)}}
	if err := b.buildAll(); err != nil {
		return b.result, fault.Op("site", err)
	}
	return b.result, nil
}

// buildAll reads, plans and writes.
func (b *build) buildAll() error {
	if err := b.chooseTheme(); err != nil {
		return err
	}
	engine := b.engineDigest()
	last := readState(b.site.root, stateName(b.opt.Output), engine)
	out, err := b.openOutput()
	if err != nil {
		return err
	}
	defer out.Close()
	if b.opt.Force {
		last.Files, last.Runs = map[string]fileState{}, nil
		for name, e := range last.Output {
			e.Key = ""
			last.Output[name] = e
		}
	}
	b.last = last.Files
	if err := b.readContent(); err != nil {
		return err
	}
	if err := b.missing(); err != nil {
		return err
	}
	if err := b.readRuns(last.Runs); err != nil {
		return err
	}
	if b.runRoot != nil {
		defer b.runRoot.Close()
	}
	b.folder = output.Open(out, last.Output, b.cfg.Precompress)
	if err := b.planFiles(); err != nil {
		return err
	}
	if err := b.makeFiles(); err != nil {
		return err
	}
	if err := b.missing(); err != nil {
		return err
	}
	entries, count, err := b.folder.Finish()
	if err != nil {
		return err
	}
	b.result.Files = count
	if count.Written+count.Removed == 0 && !b.changed.Load() && !b.opt.Force {
		return nil // the state is still true
	}
	if b.index != nil {
		b.index.Tidy()
	}
	next := state{Engine: engine, Output: entries, Files: b.files, Runs: map[string]runsite.Entry{}}
	for _, e := range b.indexed {
		next.Runs[e.Folder] = e
	}
	return fault.Wrap(fault.Lab, "state", next.writeState(b.site.root, stateName(b.opt.Output)))
}

func (b *build) openOutput() (*os.Root, error) {
	dir := b.opt.Output
	if dir == "" {
		b.result.Output = filepath.Join(b.site.Dir, filepath.FromSlash(b.cfg.Output))
		if err := b.site.root.MkdirAll(b.cfg.Output, 0o755); err != nil {
			return nil, fault.Wrap(fault.Lab, "output", err)
		}
		root, err := b.site.root.OpenRoot(b.cfg.Output)
		return root, fault.Wrap(fault.Lab, "output", err)
	}
	b.result.Output = dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.Wrap(fault.Lab, "output", err)
	}
	root, err := os.OpenRoot(dir)
	return root, fault.Wrap(fault.Lab, "output", err)
}

// chooseTheme finds the theme. A blog may name one that is not here: it is still built.
func (b *build) chooseTheme() error {
	name := b.cfg.Theme
	if b.opt.Theme != "" {
		name = b.opt.Theme
	}
	if name == "random" {
		name = randomTheme(b.cfg.URL, b.opt.Now)
		b.noteDate(b.opt.Now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour))
	}
	t, err := theme.Find(name)
	if err != nil && b.opt.Theme != "" {
		return err
	}
	if err != nil {
		b.result.Warnings = append(b.result.Warnings,
			fmt.Sprintf("%s: no theme %q; bakeoff uses %s; list themes with bakeoff site themes", config.File, name,
				theme.Default))
		if t, err = theme.Find(theme.Default); err != nil {
			return err
		}
	}
	b.theme, b.result.Theme = t, t.Name
	return nil
}

// noteDate notes when another build would give another site.
func (b *build) noteDate(at time.Time) {
	if at.After(b.opt.Now) && (b.result.Next.IsZero() || at.Before(b.result.Next)) {
		b.result.Next = at
	}
}

// randomTheme draws a theme for a day: other builds of the site on this day draw the same
// one, so that those without a change write nothing.
func randomTheme(address string, now time.Time) string {
	names := theme.Names()
	day := uint64(now.UTC().Unix() / (24 * 60 * 60))
	h := fnv.New64a()
	h.Write([]byte(address)) // a hash does not fail
	return names[rand.New(rand.NewPCG(h.Sum64(), day)).IntN(len(names))]
}

// engineDigest identifies everything that all files depend on: the program, its templates and
// the settings. The theme is not in it: it is one file.
func (b *build) engineDigest() string {
	settings := b.cfg
	settings.Theme, settings.CSS, settings.Deploy = "", "", nil
	text, err := json.Marshal(settings)
	if err != nil {
		panic(err) // it has only strings, numbers and lists
	}
	return digestOf(engineVersion, b.opt.Program, page.Digest(), string(text))
}
