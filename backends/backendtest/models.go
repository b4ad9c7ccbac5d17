package backendtest

import (
	"encoding/json"
	"time"

	"github.com/hare-go/hare/hare"
)

// The models of the suite.

type author struct {
	ID   int64
	Name string `hare:"size=40,unique"`
	Age  *int64
	Rank int64 `hare:"check=rank >= 0"`
}

type book struct {
	ID        int64
	Title     string `hare:"size=200,index"`
	Price     string `hare:"decimal=10:2"`
	Rating    *float64
	Published *time.Time
	AuthorID  int64
	Author    *author `hare:"fk=author_id,on_delete=cascade,related=books"`
}

// num is for arithmetic and slices: 30 rows, n = 10, 13, ..., 97, and m NULL in every third.
type num struct {
	ID int64
	N  int64
	M  *int64
}

// pair has a composite key.
type pair struct {
	A    int64  `hare:"pk"`
	B    string `hare:"pk,size=20"`
	Note string
}

// link is nothing but its key.
type link struct {
	Left  int64 `hare:"pk"`
	Right int64 `hare:"pk"`
}

// ticket has a key that hare makes up, and columns that fill themselves.
type ticket struct {
	ID        [16]byte `hare:"pk"`
	Subject   string
	Priority  *int64    `hare:"default=3"`
	Channel   *string   `hare:"default=web"`
	CreatedAt time.Time `hare:"auto_now_add"`
	UpdatedAt time.Time `hare:"auto_now"`
}

type level string

type status int16

// embedded is flattened into everything.
type embedded struct {
	Remark string
}

type document struct {
	Name string
	Tags []string `json:",omitempty"`
}

// everything has a field of each type.
type everything struct {
	ID       int64
	Small    int16
	Medium   int32
	Large    int64
	Plain    int
	Tiny     int8
	Byte     uint8
	Word     uint16
	Double   uint32
	Quad     uint64
	Float    float64
	Single   float32
	Flag     bool
	Text     string
	Short    string `hare:"size=5"`
	Blob     []byte
	At       time.Time
	Took     time.Duration
	Key      [16]byte
	Amount   string `hare:"decimal=30:10"`
	Level    level
	Status   status
	Document document `hare:"json"`
	Raw      json.RawMessage

	MaybeInt   *int64
	MaybeFloat *float64
	MaybeFlag  *bool
	MaybeText  *string
	MaybeBlob  *[]byte
	MaybeAt    *time.Time
	MaybeTook  *time.Duration
	MaybeKey   *[16]byte
	MaybeDec   *string   `hare:"decimal=12:3"`
	MaybeDoc   *document `hare:"json"`

	embedded
	hidden  string
	Ignored string `hare:"-"`
}

// listing has array columns.
type listing struct {
	ID      int64
	Numbers []int64   `hare:"array"`
	Words   []string  `hare:"array"`
	Ratios  []float64 `hare:"array"`
	Maybe   *[]bool   `hare:"array"`
}

var (
	authors     = hare.Objects[author]()
	books       = hare.Objects[book]()
	nums        = hare.Objects[num]()
	pairs       = hare.Objects[pair]()
	links       = hare.Objects[link]()
	tickets     = hare.Objects[ticket]()
	everythings = hare.Objects[everything]()
	listings    = hare.Objects[listing]()
)

func to[T any](v T) *T { return &v }

// numbers are the rows of num.
func numbers() []num {
	rows := make([]num, 30)
	for i := range rows {
		rows[i].N = int64(10 + 3*i)
		if i%3 != 0 {
			rows[i].M = to(int64(i))
		}
	}
	return rows
}
