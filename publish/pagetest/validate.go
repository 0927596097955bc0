package pagetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"bakeoff/base/suite"
)

// rules are those of html-validate that the HTML standard has, too: not those of taste.
const rules = `{"root": true, "extends": ["html-validate:standard"]}`

// maxPage bounds a page, in bytes.
const maxPage = 64 << 20

// modules is the folder into which setup.sh installs the checkers; without them, the
// test is skipped.
func modules(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs Node.js: apt-get install nodejs npm")
	}
	folder := filepath.Join(suite.CacheFolder(), "pagetest", "node_modules")
	for _, name := range []string{"axe-core", "html-validate"} {
		if _, err := os.Stat(filepath.Join(folder, name, "package.json")); err != nil {
			t.Skipf("needs %s, which ./setup.sh test installs with npm (apt-get install nodejs npm): %v", name, err)
		}
	}
	return folder
}

// report is what html-validate says of one file.
type report struct {
	File     string `json:"filePath"`
	Messages []struct {
		Rule    string `json:"ruleId"`
		Message string `json:"message"`
		Line    int    `json:"line"`
		Column  int    `json:"column"`
	} `json:"messages"`
}

// mistakes are those of pages against the rules of HTML, with their places.
func mistakes(t *testing.T, modules string, pages ...*url.URL) (problems []string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "rules.json")
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{filepath.Join(modules, "html-validate", "bin", "html-validate.mjs"), "--config", config,
		"--formatter", "json"}
	for i, page := range pages {
		file := filepath.Join(dir, fmt.Sprintf("%d.html", i))
		if err := os.WriteFile(file, pageSource(t, page), 0o600); err != nil {
			t.Fatal(err)
		}
		command = append(command, file)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "node", command...)
	c.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	var reports []report
	if json.Unmarshal(out, &reports) != nil {
		t.Fatalf("html-validate: %v\n%s%s", err, out, stderr.Bytes())
	}
	for _, r := range reports {
		var at int
		if _, err := fmt.Sscanf(filepath.Base(r.File), "%d.html", &at); err != nil || at < 0 || at >= len(pages) {
			t.Fatalf("html-validate names the file %q", r.File)
		}
		for _, m := range r.Messages {
			problems = append(problems, fmt.Sprintf("%s:%d:%d: %s (%s)", pages[at].Path, m.Line, m.Column, m.Message, m.Rule))
		}
	}
	return problems
}

// pageSource is the text of a page.
func pageSource(t *testing.T, page *url.URL) []byte {
	t.Helper()
	if page.Scheme == "file" {
		data, err := os.ReadFile(page.Path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	client := http.Client{Timeout: patience}
	answer, err := client.Get(page.String())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", page, answer.Status)
	}
	return data
}
