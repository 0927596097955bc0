// Command site measures `bakeoff site build` and Hugo side by side on the same posts:
// pages, tags, feeds, related posts, pagination and a site map from both. Each pair of
// builds takes turns, so that a disturbance of the machine meets both.
//
//	go build -o /tmp/bakeoff ./cmd/bakeoff
//	go run ./bench/site --bakeoff /tmp/bakeoff --posts 1000
//	go run ./bench/site --bakeoff /tmp/bakeoff --posts 10000 --rounds 1
//	go run ./bench/site --bakeoff /tmp/bakeoff --part runs --runs 1000
//
// The part "runs" measures the site of a folder of runs. They are made of a real run, with
// other dates, seeds, names and values.
//
// Hugo is Debian's: apt-get install hugo. CPU time is that of the process and its
// threads, memory its largest resident set, as wait4(2) reports them.
//
// Every full build writes into a new folder, and nothing is removed before the end of the
// measurement. ext4 without a journal does not use an inode again that was removed in the
// last one to five minutes (recently_deleted in fs/ext4/ialloc.c of Linux). It looks at all
// of them again for each new file, which is CPU time of the program that makes the file.
// For the same reason, leave five minutes between two measurements on such a file system.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed all:hugo
var hugoFiles embed.FS

var words = strings.Fields("kernel jail zone network disk latency throughput measure block sample guest host image " +
	"server thread memory cache packet request interval margin verdict noise median bootstrap system driver queue")

func main() {
	posts := flag.Int("posts", 1000, "number of posts")
	rounds := flag.Int("rounds", 3, "pairs of full builds")
	bakeoff := flag.String("bakeoff", "bakeoff", "the program")
	hugo := flag.String("hugo", "hugo", "Hugo; \"\" measures bakeoff alone")
	part := flag.String("part", "posts", "what to measure: posts or runs")
	runs := flag.Int("runs", 1000, "number of runs")
	archive := flag.String("run", "lab/evidence/testdata/20261123T030217Z-quick.tar.gz", "archive of the real run")
	flag.Parse()
	var err error
	switch *part {
	case "posts":
		err = buildSites(*posts, *rounds, *bakeoff, *hugo)
	case "runs":
		err = indexed(*runs, *archive, *bakeoff)
	default:
		err = fmt.Errorf("--part must be posts or runs (got %q)", *part)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/site:", err)
		os.Exit(1)
	}
}

func buildSites(posts, rounds int, bakeoff, hugo string) error {
	dir, err := os.MkdirTemp("", "bench-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours, theirs := filepath.Join(dir, "bakeoff"), filepath.Join(dir, "hugo")
	if err := writePosts(ours, theirs, posts); err != nil {
		return err
	}
	var ourCPU, theirCPU []float64
	for n := range rounds {
		if err := setAside(ours, fmt.Sprintf("old-%d", n), "output", ".bakeoff-site.json"); err != nil {
			return err
		}
		o, err := measure(ours, bakeoff, "site", "build", ".")
		if err != nil {
			return err
		}
		printUsage("bakeoff, full build", o)
		ourCPU = append(ourCPU, o.cpuSeconds())
		if n == 0 {
			fmt.Printf("bakeoff writes %s\n", countPages(filepath.Join(ours, "output")))
		}
		if hugo == "" {
			continue
		}
		if err := setAside(theirs, fmt.Sprintf("old-%d", n), "public", ".hugo_build.lock"); err != nil {
			return err
		}
		h, err := measure(theirs, hugo, "--quiet")
		if err != nil {
			return err
		}
		printUsage("hugo, full build", h)
		theirCPU = append(theirCPU, h.cpuSeconds())
		if n == 0 {
			fmt.Printf("hugo writes %s\n", countPages(filepath.Join(theirs, "public")))
		}
	}
	if len(theirCPU) > 0 {
		fmt.Printf("%d posts: bakeoff uses %.2f × the CPU seconds of hugo (medians of %d)\n", posts,
			medianOf(ourCPU)/medianOf(theirCPU), rounds)
	}
	return buildAgain(ours, bakeoff)
}

// buildAgain measures builds after no change, and after a change of one post.
func buildAgain(ours, bakeoff string) error {
	// The first of these builds reads the files whose times the full build could not trust,
	// because they were less than two seconds old.
	builds := []string{"second build", "no change", "no change", "no change", "one post", "one post", "one post"}
	for _, what := range builds {
		if what == "one post" {
			f, err := os.OpenFile(filepath.Join(ours, "src", "post-00007.md"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			fmt.Fprintf(f, "\nOne more paragraph at %s.\n", time.Now())
			if err := f.Close(); err != nil {
				return err
			}
		}
		u, err := measure(ours, bakeoff, "site", "build", ".")
		if err != nil {
			return err
		}
		printUsage("bakeoff, "+what, u)
	}
	return nil
}

// setAside moves what the last build wrote out of the way, without removing anything.
func setAside(dir, to string, names ...string) error {
	aside := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+"-"+to)
	if err := os.Mkdir(aside, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		err := os.Rename(filepath.Join(dir, name), filepath.Join(aside, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// usage is what a process used.
type usage struct {
	wall, user, system float64 // seconds
	rss                int64   // bytes
}

func (u usage) cpuSeconds() float64 { return u.user + u.system }

// measure runs a build in a folder.
func measure(dir string, argv ...string) (usage, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return usage{}, fmt.Errorf("%s: %w: %s", argv[0], err, out)
	}
	u := usage{wall: time.Since(began).Seconds(), user: cmd.ProcessState.UserTime().Seconds(),
		system: cmd.ProcessState.SystemTime().Seconds()}
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.rss = int64(r.Maxrss) << 10
	}
	return u, nil
}

func printUsage(what string, u usage) {
	fmt.Printf("%-24s %7.2f s  %7.2f CPU s (%.2f user, %.2f system)  %5d MB\n", what, u.wall, u.cpuSeconds(), u.user,
		u.system, u.rss>>20)
}

func medianOf(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// countPages counts the pages and feeds below a folder.
func countPages(dir string) string {
	kinds := map[string]int{}
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			kinds[filepath.Ext(name)]++
		}
		return nil
	})
	return fmt.Sprintf("%d pages, %d XML files", kinds[".html"], kinds[".xml"])
}

// writePosts writes the same posts for both programs.
func writePosts(ours, theirs string, posts int) error {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []string{filepath.Join(ours, "src"), filepath.Join(theirs, "content", "posts")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	files, err := fs.Sub(hugoFiles, "hugo")
	if err != nil {
		return err
	}
	if err := os.CopyFS(theirs, files); err != nil {
		return err
	}
	settings := "SITE_TITLE=Bench\nSITE_DESCRIPTION=\"Posts to measure with\"\nSITE_URL=https://example.com\n" +
		"DATE_FORMAT=%Y-%m-%d\nTIMEZONE=UTC\nENABLE_ARCHIVES=false\nENABLE_AUTHOR_PAGES=false\nENABLE_SEARCH=false\n"
	if err := os.WriteFile(filepath.Join(ours, "config.sh.local"), []byte(settings), 0o644); err != nil {
		return err
	}
	for i := range posts {
		name := fmt.Sprintf("post-%05d", i)
		date := time.Date(2010+i%15, time.Month(1+i%12), 1+i%28, 12, 0, i%60, 0, time.UTC)
		tags := r.Perm(50)[:3]
		body := postText(r, i)
		our := fmt.Sprintf("---\ntitle: Post number %d\ndate: %s\ntags: tag%02d, tag%02d, tag%02d\nslug: %s\n---\n\n%s", i,
			date.Format("2006-01-02 15:04:05 -0700"), tags[0], tags[1], tags[2], name, body)
		their := fmt.Sprintf("---\ntitle: Post number %d\ndate: %s\ntags: [tag%02d, tag%02d, tag%02d]\nslug: %s\n---\n\n%s",
			i, date.Format(time.RFC3339), tags[0], tags[1], tags[2], name, body)
		if err := os.WriteFile(filepath.Join(ours, "src", name+".md"), []byte(our), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(theirs, "content", "posts", name+".md"), []byte(their), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// postText is four paragraphs, a list, a quotation, and code in every tenth post.
func postText(r *rand.Rand, i int) string {
	paragraph := func() string {
		var out []string
		for range 60 {
			out = append(out, words[r.IntN(len(words))])
		}
		return strings.Join(out, " ") + "."
	}
	s := paragraph() + fmt.Sprintf("\n\n## Heading %d\n\n", i) + paragraph() +
		" **Bold** and a [link](https://example.com/).\n\n- one\n- two\n- three\n\n" + paragraph() + "\n\n> " +
		paragraph() + "\n"
	if i%10 == 0 {
		s += "\n```go\nfunc sum(v []int) (t int) {\n\tfor _, x := range v {\n\t\tt += x\n\t}\n\treturn t\n}\n```\n"
	}
	return s
}
