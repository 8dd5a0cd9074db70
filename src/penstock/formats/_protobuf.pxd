"""ProtoPlan, for the decoder; see protobuf/_plan.py."""

from libc.stdint cimport int32_t, uint8_t


cdef extern from "protobuf.h":
    ctypedef struct ProtoField:
        pass

    ctypedef struct ProtoMessage:
        pass

    ctypedef struct ProtoPlan:
        const ProtoMessage *messages
        const ProtoField *fields
        const int32_t *columns
        const int32_t *enum_numbers
        const int32_t *enum_symbols
        const uint8_t *symbols
        const int32_t *symbol_offsets
        int32_t field_count_max


cdef inline void set_proto_plan(ProtoPlan *plan, object made):
    """Point a native plan into a plan of protobuf/_plan.py. The caller keeps that plan alive."""
    plan.messages = <const ProtoMessage *><const char *>(<bytes>made.messages)
    plan.fields = <const ProtoField *><const char *>(<bytes>made.fields)
    plan.columns = <const int32_t *><const char *>(<bytes>made.columns)
    plan.enum_numbers = <const int32_t *><const char *>(<bytes>made.enum_numbers)
    plan.enum_symbols = <const int32_t *><const char *>(<bytes>made.enum_symbols)
    plan.symbols = <const uint8_t *><const char *>(<bytes>made.symbols)
    plan.symbol_offsets = <const int32_t *><const char *>(<bytes>made.symbol_offsets)
    plan.field_count_max = made.field_count_max
