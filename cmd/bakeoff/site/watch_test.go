package site

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
)

// watching starts `site build --watch`, and returns what it writes and how to end it.
func watching(t *testing.T, dir string) (out, errs *said, end func()) {
	t.Helper()
	out, errs = &said{}, &said{}
	ctx, cancel := context.WithCancel(t.Context())
	c := Command(cli.NewStreams(nil, out, errs, func(string) string { return "" }), "test")
	c.SetArgs([]string{"build", "--watch", dir})
	c.SilenceErrors, c.SilenceUsage = true, true
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(ctx) }()
	return out, errs, func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("build --watch did not end")
		}
	}
}

// has reports whether a file has a text.
func has(file, text string) bool {
	got, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(got), text)
}

// build --watch publishes a post when its date comes, follows changes in new folders and of the
// settings, and keeps the last site when a build fails.
func TestBuildWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blog")
	if err := site.Init(dir, "Harbor", time.Now()); err != nil {
		t.Fatal(err)
	}
	var due time.Time
	write := func(wait time.Duration) {
		due = time.Now().Add(wait)
		put(t, filepath.Join(dir, "src", "soon.md"), "---\ntitle: Soon\nslug: soon\ndate: "+
			due.Format("2006-01-02 15:04:05 -0700")+"\n---\nIt is time.\n")
	}
	write(3 * time.Second)
	_, errs, end := watching(t, dir)
	home := filepath.Join(dir, "output", "index.html")
	soon(t, "the first build has no page", func() bool { return has(home, "Hello") })
	says := func() bool { return strings.Contains(errs.String(), "builds on "+due.Format("2006-01-02 15:04:05")) }
	for _, wait := range []time.Duration{10 * time.Second, 40 * time.Second, 0} {
		// On a busy machine, the date may come before the build.
		soon(t, "watch does not say when the post is due", func() bool { return says() || time.Now().After(due) })
		if says() {
			break
		}
		if wait == 0 {
			t.Fatalf("watch does not say when the post is due: %s", errs.String())
		}
		write(wait)
	}
	soon(t, "the post is not published", func() bool { return has(home, "It is time.") })
	if now := time.Now(); now.Before(due.Truncate(time.Second)) {
		t.Errorf("published at %v, before %v", now, due)
	}

	if err := os.MkdirAll(filepath.Join(dir, "src", "new", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	post := filepath.Join(dir, "src", "new", "deep", "tide.md")
	put(t, post, "---\ntitle: Tide\ndate: 2025-01-02\n---\nIt rises.\n")
	page := filepath.Join(dir, "output", "2025", "01", "02", "tide", "index.html")
	soon(t, "the post in a new folder has no page", func() bool { return has(page, "It rises.") })
	put(t, post, "---\ntitle: Tide\ndate: yesterday\n---\nIt rests.\n")
	soon(t, "the mistake is not named", func() bool { return strings.Contains(errs.String(), "src/new/deep/tide.md:3") })
	soon(t, "nothing says which site stays", func() bool {
		return strings.Contains(errs.String(), "the site still shows the last successful build")
	})
	if !has(page, "It rises.") {
		t.Error("after a mistake, the last site is gone")
	}
	put(t, post, "---\ntitle: Tide\ndate: 2025-01-02\n---\nIt falls.\n")
	soon(t, "the page is the old one", func() bool { return has(page, "It falls.") })
	settings, err := os.ReadFile(filepath.Join(dir, "config.sh.local"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "config.sh.local"), strings.Replace(string(settings), "Harbor", "Quay", 1))
	soon(t, "the settings are the old ones", func() bool { return has(home, "Quay") })
	end()
}

// Where the system reports no changes, the files are looked at.
func TestWatcherWithoutNotifier(t *testing.T) {
	w := newWatcher(t.TempDir())
	w.Close()
	w.notifier = nil
	w.update()
	if !w.wait(t.Context(), time.Time{}) {
		t.Error("no look at the files")
	}
	if w.wait(t.Context(), time.Now().Add(-time.Second)) {
		t.Error("a date that came counts as a change")
	}
}

// What a build writes into the site's own folder does not start another one.
func TestBuildsDoNotFollowThemselves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blog")
	if err := site.Init(dir, "Harbor", time.Now()); err != nil {
		t.Fatal(err)
	}
	w := newWatcher(dir)
	defer w.Close()
	if w.notifier == nil {
		t.Skipf("this system reports no changes: %v", w.problem)
	}
	w.update()
	s, err := site.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Build(site.Option{Program: "test"}); err != nil {
		t.Fatal(err)
	}
	if w.wait(t.Context(), time.Now().Add(time.Second)) {
		t.Error("a build counts as a change")
	}
	put(t, filepath.Join(dir, "src", "a.md"), "x")
	if !w.wait(t.Context(), time.Now().Add(time.Minute)) {
		t.Error("a new file does not count as a change")
	}
}
