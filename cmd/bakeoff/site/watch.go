package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"bakeoff/publish/site"
	"bakeoff/publish/site/config"
)

// How long a watcher waits.
const (
	between = time.Second            // two looks at the files, where the system reports no changes
	settle  = 100 * time.Millisecond // after a change: an editor changes several files
	longest = time.Minute            // one wait: a clock that was set, or a machine that slept, moves a date
	retry   = 30 * time.Second       // after a build that failed, in case its cause is gone
)

// watcher waits for changes of a site's files.
type watcher struct {
	dir      string
	notifier *fsnotify.Watcher // nil: the system reports no changes
	watched  map[string]bool
	names    map[string]bool // of the folders with sources, below dir
	problem  error           // why there is no notifier
}

// newWatcher watches the folders of a site with inotify(7), kqueue(2) or event ports.
func newWatcher(dir string) *watcher {
	w := &watcher{dir: dir, watched: map[string]bool{}}
	w.notifier, w.problem = fsnotify.NewWatcher()
	return w
}

// Close ends the watcher.
func (w *watcher) Close() {
	if w.notifier != nil {
		w.notifier.Close()
	}
}

// update watches folders that are new. A system that cannot watch as many is asked no more: the
// files are then looked at every second.
func (w *watcher) update() {
	if w.notifier == nil {
		return
	}
	now := map[string]bool{}
	for _, dir := range w.folders() {
		now[dir] = true
		if w.watched[dir] {
			continue
		}
		if err := w.notifier.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.problem = err
			w.notifier.Close()
			w.notifier = nil
			return
		}
	}
	w.watched = now
}

// folders are the site's own folder and those with sources. Links are not followed.
func (w *watcher) folders() []string {
	c := config.Default()
	if s, err := site.Open(w.dir); err == nil {
		c = s.Config
		s.Close()
	}
	out := []string{w.dir}
	w.names = map[string]bool{}
	for _, name := range []string{c.Source, c.Pages, c.Drafts, c.Static, c.Runs} {
		first, _, _ := strings.Cut(name, "/")
		w.names[first] = true
		top := filepath.Join(w.dir, filepath.FromSlash(name))
		_ = filepath.WalkDir(top, func(dir string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return nil // a folder that is missing now may be there later
			}
			if strings.HasPrefix(e.Name(), ".") {
				return fs.SkipDir
			}
			out = append(out, dir)
			return nil
		})
	}
	return out
}

// wait returns when files changed, when due comes, or when the context ends. A zero due never
// comes. It returns whether the files may have changed.
func (w *watcher) wait(ctx context.Context, due time.Time) bool {
	for ctx.Err() == nil {
		now := time.Now().Round(0) // the time of the clock on the wall
		if !due.IsZero() && !now.Before(due) {
			return false
		}
		span := longest
		if !due.IsZero() {
			span = min(span, due.Sub(now))
		}
		if w.notifier == nil {
			span = min(span, between)
		}
		timer := time.NewTimer(span)
		changed := w.waitFor(ctx, timer.C)
		timer.Stop()
		if changed || w.notifier == nil {
			return true
		}
	}
	return false
}

// waitFor waits until a file changes and then nothing does for a moment; it returns false if the
// timer or the context ends first.
func (w *watcher) waitFor(ctx context.Context, timer <-chan time.Time) bool {
	var events <-chan fsnotify.Event
	var problems <-chan error
	if w.notifier != nil {
		events, problems = w.notifier.Events, w.notifier.Errors
	}
	changed := false
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer:
			return changed
		case <-problems:
			return true // events were lost
		case e := <-events:
			if w.concerns(e) && !changed {
				changed = true
				quiet := time.NewTimer(settle)
				defer quiet.Stop()
				timer = quiet.C
			}
		}
	}
}

// concerns reports whether a change can change the site: the site's own folder also has the
// output, and what a build writes for the next one.
func (w *watcher) concerns(e fsnotify.Event) bool {
	name := filepath.Base(e.Name)
	if strings.HasPrefix(name, ".") || e.Op == fsnotify.Chmod {
		return false
	}
	if filepath.Dir(e.Name) != filepath.Clean(w.dir) || name == config.File {
		return true
	}
	return w.names[name] && e.Op&(fsnotify.Create|fsnotify.Remove|fsnotify.Rename) != 0
}

// follow builds again whenever a file changed, and when a date comes. build returns the next date.
// A mistake is shown once and does not end it; the last site stays.
func (w writer) follow(ctx context.Context, dir string, due time.Time, build func() (time.Time, error)) {
	watcher := newWatcher(dir)
	defer watcher.Close()
	last := ""
	for first := true; ; first = false {
		watcher.update()
		if first {
			w.announceWatch(watcher)
		} else if changed := watcher.wait(ctx, due); ctx.Err() != nil {
			return
		} else if changed {
			watcher.update()
		}
		// The first build finds what changed before the folders were watched.
		next, err := build()
		message := ""
		if err != nil {
			message, next = err.Error(), time.Now().Add(retry)
		}
		if message != "" && message != last {
			fmt.Fprintln(w.Err, "bakeoff: "+message)
			fmt.Fprintln(w.Err, "bakeoff: the site still shows the last successful build; bakeoff builds again when "+
				"a file changes")
		}
		last, due = message, next
	}
}

// announceWatch says how the files are watched.
func (w writer) announceWatch(watcher *watcher) {
	if watcher.notifier == nil {
		fmt.Fprintf(w.Err, "bakeoff: this system does not report changed files (%v); bakeoff checks them every second\n",
			watcher.problem)
	}
}
