package countboot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// History is the line of commits of a git repository between two of them, with a work
// tree of its own to build in.
type History struct {
	// Commits are full hashes, in the order of the history: GOOD is the first, BAD the last.
	Commits []string
	repo    string
	tree    string // the work tree; "" until it is made
}

// OpenHistory reads the first parents from bad back to good in the repository that
// contains dir. The caller must Close the History.
func OpenHistory(ctx context.Context, dir, good, bad string) (*History, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "git is not installed"), "apt-get install git")
	}
	h := &History{repo: dir}
	if _, err := h.git(ctx, "rev-parse", "--git-dir"); err != nil {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s is not in a git repository", dir), "change into one")
	}
	var ends [2]string
	for i, name := range []string{good, bad} {
		hash, err := h.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		if err != nil {
			return nil, fault.New(fault.NotFound, "there is no commit %q in this repository", name)
		}
		ends[i] = hash
	}
	text, err := h.git(ctx, "rev-list", "--reverse", "--first-parent", "--ancestry-path", ends[0]+".."+ends[1])
	if err != nil {
		return nil, err
	}
	h.Commits = append([]string{ends[0]}, strings.Fields(text)...)
	if len(h.Commits) < 2 {
		return nil, fault.WithFix(fault.New(fault.Invalid, "the commit %s is not in the first-parent history of "+
			"the commit %s", good, bad),
			"name an earlier commit as GOOD")
	}
	return h, nil
}

// Subject is the first line of a commit's message, with its short hash.
func (h *History) Subject(ctx context.Context, commit string) string {
	text, err := h.git(ctx, "log", "-1", "--no-show-signature", "--format=%h %s", commit)
	if err != nil {
		return commit
	}
	return safetext.Line(text)
}

// Build checks out a commit and runs the command in the work tree, whose other files
// stay: a build continues with what an earlier one left. It returns the folder. out gets
// what the command prints. A failure of the command is an error of kind fault.Subject.
func (h *History) Build(ctx context.Context, commit string, argv []string, out io.Writer) (string, error) {
	if h.tree == "" {
		dir, err := os.MkdirTemp("", "bakeoff-bisect")
		if err != nil {
			return "", err
		}
		tree := filepath.Join(dir, "tree")
		if _, err := h.git(ctx, "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
		h.tree = tree
	} else if _, err := h.git(ctx, "-C", h.tree, "checkout", "--quiet", "--force", "--detach", commit); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = h.tree, out, out, 10*time.Second
	err := cmd.Run()
	var missing *exec.Error
	switch {
	case err == nil || ctx.Err() != nil:
		return h.tree, ctx.Err()
	case errors.As(err, &missing):
		return "", fault.New(fault.NotFound, "the build command cannot be started: %v", err)
	}
	return "", fault.New(fault.Subject, "the build failed (%v)", err)
}

// Close removes the work tree.
func (h *History) Close() error {
	if h.tree == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := h.git(ctx, "worktree", "remove", "--force", h.tree)
	return errors.Join(err, os.RemoveAll(filepath.Dir(h.tree)))
}

// git runs git in the repository and returns its output.
func (h *History) git(ctx context.Context, args ...string) (string, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", h.repo}, args...)...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fault.New(fault.Lab, "git %s: %w: %s", args[0], err, safetext.LastLines(said.String(), 3))
	}
	return strings.TrimSpace(string(out)), err
}

// String names the line.
func (h *History) String() string { return fmt.Sprintf("%d commits", len(h.Commits)) }
