package schema

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// options are a tag's words.
type options struct {
	skip                bool // hare:"-"
	pk                  bool
	json, array         bool
	autoNow, autoNowAdd bool
	m2m                 bool
	size                int
	precision, scale    int
	column, override    string
	check               string
	onDelete            string
	reverse             string
	fk                  []string
	choices             []string
	preset              string   // default=
	indexes, uniques    []string // names of the groups; "" is an index of the column alone
	written             []written
}

// written is one word as the model has it.
type written struct{ key, text string }

// has reports whether the tag has the word.
func (o *options) has(key string) bool { return o.word(key) != "" }

// word is the text of a word of the tag, for messages, or empty.
func (o *options) word(key string) string {
	for _, w := range o.written {
		if w.key == key {
			return w.text
		}
	}
	return ""
}

// other is the text of the first word that is not one of keys, or empty.
func (o *options) other(keys ...string) string {
	for _, w := range o.written {
		if !slices.Contains(keys, w.key) {
			return w.text
		}
	}
	return ""
}

// form says whether a word has a value.
type form uint8

const (
	bare       form = iota // never
	valued                 // always
	eitherForm             // index and index=name
)

// vocabulary is every word with what it does; set returns what is wrong with the value.
var vocabulary = map[string]struct {
	form form
	set  func(o *options, value string) string
}{
	"pk":           {bare, func(o *options, _ string) string { o.pk = true; return "" }},
	"json":         {bare, func(o *options, _ string) string { o.json = true; return "" }},
	"array":        {bare, func(o *options, _ string) string { o.array = true; return "" }},
	"auto_now":     {bare, func(o *options, _ string) string { o.autoNow = true; return "" }},
	"auto_now_add": {bare, func(o *options, _ string) string { o.autoNowAdd = true; return "" }},
	"m2m":          {bare, func(o *options, _ string) string { o.m2m = true; return "" }},
	"soft_delete": {bare, func(*options, string) string {
		return "soft deletion is not supported yet: leave the word out and filter by the column"
	}},
	"version": {bare, func(*options, string) string {
		return "optimistic locking is not supported yet: leave the word out and compare the column in the update's filter"
	}},
	"index":     {eitherForm, func(o *options, v string) string { o.indexes = append(o.indexes, v); return "" }},
	"unique":    {eitherForm, func(o *options, v string) string { o.uniques = append(o.uniques, v); return "" }},
	"column":    {valued, func(o *options, v string) string { o.column = v; return checkStep(v) }},
	"size":      {valued, setSize},
	"decimal":   {valued, setDecimal},
	"default":   {valued, func(o *options, v string) string { o.preset = v; return "" }},
	"type":      {valued, setType},
	"check":     {valued, setCheck},
	"choices":   {valued, setChoices},
	"fk":        {valued, setForeignKey},
	"on_delete": {valued, setOnDelete},
	"related":   {valued, func(_ *options, v string) string { return checkStep(v) }},
	"reverse":   {valued, func(o *options, v string) string { o.reverse = v; return checkStep(v) }},
	"through":   {valued, func(_ *options, v string) string { return checkName(v) }},
}

// strayTag finds a tag that is meant for hare and that reflect cannot read, as hare:pk without quotes.
var strayTag = regexp.MustCompile(`(^|\s)hare\s*:`)

// readTag reads the tag of a field.
func readTag(tag reflect.StructTag) (*options, error) {
	text, ok := tag.Lookup("hare")
	if !ok && strayTag.MatchString(string(tag)) {
		return nil, faultf(string(tag), "a tag is written `hare:\"...\"`, without spaces around the colon and in double quotes")
	}
	return parseTag(text)
}

func parseTag(text string) (*options, error) {
	o := &options{}
	if text == "" {
		return o, nil
	}
	if text == "-" {
		o.skip = true
		return o, nil
	}
	for rest := text; ; {
		word, value, hasValue, next, more, err := cutWord(rest)
		if err != nil {
			return nil, err
		}
		if err := o.add(word, value, hasValue); err != nil {
			return nil, err
		}
		if !more {
			return o, o.agree()
		}
		rest = next
	}
}

// cutWord takes the first word off a tag. A value in single quotes may contain commas, and a quote in it is written twice, as in
// SQL. The values of check and type are SQL themselves: commas within parentheses and quotes belong to them.
func cutWord(text string) (key, value string, hasValue bool, rest string, more bool, err error) {
	end := strings.IndexAny(text, ",=")
	if end < 0 {
		return strings.TrimSpace(text), "", false, "", false, nil
	}
	key = strings.TrimSpace(text[:end])
	if text[end] == ',' {
		return key, "", false, text[end+1:], true, nil
	}
	text = strings.TrimLeft(text[end+1:], " ")
	switch {
	case key == "check" || key == "type":
		end, err = sqlEnd(key, text)
	case strings.HasPrefix(text, "'"):
		end, err = quotedEnd(key, text)
	default:
		if end = strings.IndexByte(text, ','); end < 0 {
			end = len(text)
		}
	}
	if err != nil {
		return "", "", false, "", false, err
	}
	value = strings.TrimSpace(text[:end])
	if key != "check" && len(value) > 1 && value[0] == '\'' {
		value = strings.ReplaceAll(value[1:len(value)-1], "''", "'")
	}
	if end == len(text) {
		return key, value, true, "", false, nil
	}
	return key, value, true, text[end+1:], true, nil
}

// sqlEnd is where the SQL ends that text begins with: at the first comma outside parentheses and quotes.
func sqlEnd(key, text string) (int, error) {
	depth, quoted := 0, byte(0)
	for i := range len(text) {
		switch c := text[i]; {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return 0, faultf(key+"="+text, "the parentheses do not match")
			}
		case c == ',' && depth == 0:
			return i, nil
		}
	}
	if depth != 0 || quoted != 0 {
		return 0, faultf(key+"="+text, "the parentheses or quotes do not match")
	}
	return len(text), nil
}

// quotedEnd is where the quoted value ends that text begins with; nothing but a comma may follow it.
func quotedEnd(key, text string) (int, error) {
	for i := 1; i < len(text); i++ {
		if text[i] != '\'' {
			continue
		}
		if i+1 < len(text) && text[i+1] == '\'' {
			i++
			continue
		}
		end := i + 1
		for end < len(text) && text[end] == ' ' {
			end++
		}
		if end < len(text) && text[end] != ',' {
			return 0, faultf(key+"="+text, "after the closing quote comes a comma or the end; a quote within is written twice")
		}
		return end, nil
	}
	return 0, faultf(key+"="+text, "the closing quote is missing")
}

func (o *options) add(key, value string, hasValue bool) error {
	text := key
	if hasValue {
		text += "=" + value
	}
	entry, known := vocabulary[key]
	switch {
	case key == "" && !hasValue:
		return faultf("", "the tag has an empty word: a comma too many")
	case key == "-":
		return faultf(text, "\"-\" leaves the field out and stands alone")
	case !known:
		return unknownWord(text, key)
	case entry.form == bare && hasValue:
		return faultf(text, "%q has no value", key)
	case entry.form == valued && !hasValue:
		return faultf(text, "%q needs a value: %s=...", key, key)
	case value == "" && hasValue && key != "default":
		return faultf(text, "the value of %q is empty", key)
	case entry.form != eitherForm && o.has(key):
		return faultf(text, "%q is there twice", key)
	}
	if strings.ContainsRune(value, 0) {
		return faultf(text, "a tag must not contain a NUL byte")
	}
	if reason := entry.set(o, value); reason != "" {
		return faultf(text, "%s", reason)
	}
	o.written = append(o.written, written{key, text})
	return nil
}

func unknownWord(text, key string) error {
	known := make([]string, 0, len(vocabulary))
	for word := range vocabulary {
		known = append(known, word)
	}
	slices.Sort(known)
	if nearest := Nearest(key, known); nearest != "" {
		return faultf(text, "there is no word %q: did you mean %q?", key, nearest)
	}
	return faultf(text, "there is no word %q; the words are %s", key, strings.Join(known, ", "))
}

// exclusive are words that contradict each other.
var exclusive = [][2]string{
	{"auto_now", "auto_now_add"}, {"json", "array"}, {"json", "decimal"}, {"json", "size"}, {"size", "decimal"},
	{"auto_now", "default"}, {"auto_now_add", "default"}, {"fk", "m2m"}, {"fk", "reverse"}, {"m2m", "reverse"},
	{"check", "m2m"}, {"json", "choices"}, {"array", "choices"},
}

// needs are words that mean nothing without another.
var needs = map[string][]string{"on_delete": {"fk"}, "related": {"fk", "m2m"}, "through": {"m2m"}}

// agree finds words that do not go together.
func (o *options) agree() error {
	for _, pair := range exclusive {
		if o.has(pair[0]) && o.has(pair[1]) {
			return faultf(o.word(pair[1]), "%q and %q exclude each other", pair[0], pair[1])
		}
	}
	for _, w := range o.written {
		if needed := needs[w.key]; needed != nil && !slices.ContainsFunc(needed, o.has) {
			return faultf(w.text, "%q belongs to a tag with %s", w.key, strings.Join(needed, " or "))
		}
	}
	return nil
}

// maxSize is PostgreSQL's longest varchar.
const maxSize = 10_485_760

func setSize(o *options, value string) string {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxSize {
		return fmt.Sprintf("size is the longest text in characters, from 1 to %d; without the word there is no limit", maxSize)
	}
	o.size = n
	return ""
}

// maxPrecision is PostgreSQL's longest numeric.
const maxPrecision = 1000

func setDecimal(o *options, value string) string {
	before, after, ok := strings.Cut(value, ":")
	precision, err := strconv.Atoi(before)
	scale, scaleErr := strconv.Atoi(after)
	if !ok || err != nil || scaleErr != nil {
		return "decimal has two numbers: all digits, and those after the point, as in decimal=10:2"
	}
	if precision < 1 || precision > maxPrecision || scale < 0 || scale > precision {
		return fmt.Sprintf("a decimal has 1 to %d digits, and at most all of them after the point", maxPrecision)
	}
	o.precision, o.scale = precision, scale
	return ""
}

var typeText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_ (),.\[\]"]*$`)

var sizedType = regexp.MustCompile(`(?i)^(?:varchar|char|character|character varying) *\( *([0-9]+) *\)$`)

func setType(o *options, value string) string {
	if !typeText.MatchString(value) {
		return "type is the database's own name of a type, as in type=bigint or type=varchar(20)"
	}
	o.override = value
	if sized := sizedType.FindStringSubmatch(value); sized != nil && o.size == 0 {
		return setSize(o, sized[1]) // checked as with size=, which not every database does by itself
	}
	return ""
}

func setCheck(o *options, value string) string {
	o.check = value
	return ""
}

func setChoices(o *options, value string) string {
	o.choices = strings.Split(value, "|")
	for i, choice := range o.choices {
		if choice == "" {
			return "a choice is empty: choices are written a|b|c"
		}
		if slices.Contains(o.choices[:i], choice) {
			return fmt.Sprintf("the choice %q is there twice", choice)
		}
	}
	return ""
}

func setForeignKey(o *options, value string) string {
	o.fk = strings.Split(value, ":")
	for i, column := range o.fk {
		if column == "" || slices.Contains(o.fk[:i], column) {
			return "fk names the column that holds the key, as in fk=author_id, or the columns of a composite key, as in fk=a:b"
		}
	}
	return ""
}

var onDeletes = []string{"cascade", "restrict", "set_null", "set_default", "no_action"}

func setOnDelete(o *options, value string) string {
	if !slices.Contains(onDeletes, value) {
		reason := "on_delete is one of " + strings.Join(onDeletes, ", ")
		if nearest := Nearest(value, onDeletes); nearest != "" {
			reason += fmt.Sprintf("; did you mean %q?", nearest)
		}
		return reason
	}
	o.onDelete = value
	return ""
}
