package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = ".."

// pages are README.md, the other texts beside it and everything in docs, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	if len(texts) < 2 {
		t.Fatalf("%d pages: the test looks in the wrong place", len(texts))
	}
	return texts
}

// sources are the Go files that a page may quote, with the spaces of each line normalized.
func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		texts[name] = normalized(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// normalized is a text whose lines are neither indented nor aligned, between two line ends.
func normalized(text string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(line), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// block is a block of a page, with its language.
var block = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// TestPagesQuoteTheCode compares what the pages show with the code: each block of Go or YAML stands in one Go file,
// paragraph by paragraph, so that it compiles and its tests run it. A block with a package clause is a whole program.
func TestPagesQuoteTheCode(t *testing.T) {
	files := sources(t)
	blocks := 0
	for page, text := range pages(t) {
		for _, match := range block.FindAllStringSubmatch(text, -1) {
			if match[1] != "go" && match[1] != "yaml" {
				continue
			}
			blocks++
			quoted := false
			for _, source := range files {
				quoted = quoted || quotes(match[2], source)
			}
			if !quoted {
				t.Errorf("%s: no Go file has this block:\n%s", page, match[2])
			}
		}
	}
	if blocks < 5 {
		t.Errorf("%d blocks: the test does not see them", blocks)
	}
}

// quotes says whether code is taken from a normalized source.
func quotes(code, source string) bool {
	if strings.HasPrefix(code, "package ") {
		return strings.HasSuffix(source, normalized(code))
	}
	for paragraph := range strings.SplitSeq(code, "\n\n") {
		if !strings.Contains(source, normalized(strings.Trim(paragraph, "\n"))) {
			return false
		}
	}
	return true
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestPagesLinkToFiles follows the links from page to page.
func TestPagesLinkToFiles(t *testing.T) {
	for page, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), match[1])); err != nil {
				t.Errorf("%s: a link leads nowhere: %v", page, err)
			}
		}
	}
}

var target = regexp.MustCompile(`(?m)^make ([a-z]+)`)

// TestPagesNameTargets looks up each "make target" of the pages.
func TestPagesNameTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range pages(t) {
		for _, commands := range block.FindAllString(text, -1) {
			for _, match := range target.FindAllStringSubmatch(commands, -1) {
				if !strings.Contains(string(makefile), "\n"+match[1]+":") {
					t.Errorf("%s: the Makefile has no target %q", page, match[1])
				}
			}
		}
	}
}
