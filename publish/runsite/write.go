package runsite

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"bakeoff/base/atomicfile"
)

// writePages writes the pages whose runs changed, removes those without runs, and keeps
// what the next Build needs.
func writePages(root *os.Root, entries []Entry, old cache, opt Option, sum *Summary) error {
	if err := root.MkdirAll(PagesDir, 0o777); err != nil {
		return err
	}
	x := New(root, entries, Look{Version: opt.Report.Version, Program: opt.Program})
	kept := cache{Schema: cacheSchema, Runs: make(map[string]Entry, len(entries)), Pages: map[string]string{}}
	for _, e := range entries {
		kept.Runs[e.Folder] = e
	}
	pages := x.Pages()
	var stale []Page
	for _, p := range pages {
		kept.Pages[p.File] = p.Identity
		if info, err := root.Lstat(p.File); old.Pages[p.File] != p.Identity || err != nil || !info.Mode().IsRegular() {
			stale = append(stale, p)
		}
	}
	if err := writeAll(root, stale); err != nil {
		return err
	}
	sum.Pages, sum.Written = len(pages), len(stale)
	for file := range old.Pages {
		if _, ok := kept.Pages[file]; !ok && strings.HasPrefix(file, PagesDir+"/") && fs.ValidPath(file) {
			if err := root.Remove(file); err == nil {
				sum.Removed++
			}
		}
	}
	if sum.Read == 0 && sum.Written == 0 && sum.Removed == 0 {
		return nil
	}
	x.Tidy()
	data, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return atomicfile.WriteUnsyncedIn(root, cacheFile, data, 0o666)
}

// writeAll renders and writes pages, on all processors.
func writeAll(root *os.Root, pages []Page) error {
	problems := make([]error, len(pages))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8, len(pages)) {
		workers.Go(func() {
			var b bytes.Buffer
			for i := int(next.Add(1)) - 1; i < len(pages); i = int(next.Add(1)) - 1 {
				b.Reset()
				if problems[i] = pages[i].Render(&b); problems[i] == nil {
					problems[i] = atomicfile.WriteUnsyncedIn(root, pages[i].File, b.Bytes(), 0o666)
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(problems...)
}
