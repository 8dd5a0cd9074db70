import pyarrow as pa

from penstock.formats.avro._plan import AvroPlan
from penstock.formats.csv import CsvFormat
from penstock.formats.protobuf._plan import ProtobufPlan

class RowFailed(Exception):
    row: int
    reason: str
    path: str

def encode_avro(rows: pa.RecordBatch, plan: AvroPlan, header: bytes) -> pa.Array: ...
def encode_csv(rows: pa.RecordBatch, dialect: CsvFormat) -> pa.Array: ...
def encode_protobuf(rows: pa.RecordBatch, plan: ProtobufPlan, header: bytes) -> pa.Array: ...
def encode_json(
    rows: pa.RecordBatch,
    *,
    separator: str,
    decimal_as_plain_number: bool,
    ignore_null_fields: bool,
) -> pa.Array: ...
